#pragma once
// NCCL_TESTS_SPLIT and NCCL_TESTS_SPLIT_MASK: which group each process of a job belongs to.
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace busbw {

/// The colour of a process, a function of its index: processes of one colour form one group.
struct Split {
  enum class Op { none, bit_and, bit_or, modulo, divide };
  Op op = Op::none;
  int operand = 0;

  int colour(int process) const;
  /// The ranks of each group, by colour, when each process has as many.
  std::map<int, std::vector<int>> groups(int processes, int ranks_per_process) const;
};

/// From the two variables' values, the mask first, as nccl-tests has it: "0x7" (hexadecimal) as mask; "AND 0x7",
/// "OR 1", "MOD 8", "DIV 0b100" (or & | % /) as split. Throws UsageError on anything else.
Split parse_split(const std::optional<std::string>& mask, const std::optional<std::string>& split);

}  // namespace busbw
