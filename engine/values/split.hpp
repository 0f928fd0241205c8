#pragma once
// NCCL_TESTS_SPLIT and NCCL_TESTS_SPLIT_MASK: assignment of a job's processes to groups. Each group has a communicator
// of its own and measures at the same time as the others.
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace busbw {

/// Computes the color of a process from its index. Processes of one color form a group.
struct Split {
  enum class Op { none, bit_and, bit_or, modulo, divide };
  Op op = Op::none;
  int operand = 0;

  /// Color of a process. Without an operator, all processes have color 0.
  int color(int process) const;
  /// Ranks of each group, numbered in the job, by color. Each process has `ranks_per_process` ranks.
  std::map<int, std::vector<int>> groups(int processes, int ranks_per_process) const;
};

/// Parses the two variables. The mask takes precedence, as in nccl-tests. Mask: "0x7" (hexadecimal). Split: "AND 0x7",
/// "OR 1", "MOD 8", "DIV 0b100" (or & | % /). Throws UsageError on anything else.
Split parse_split(const std::optional<std::string>& mask, const std::optional<std::string>& split);

}  // namespace busbw
