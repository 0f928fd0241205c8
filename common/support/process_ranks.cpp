// Computes the ranks of a process: process 0 has the first ranks, process 1 the next ones.
#include "common/support/process_ranks.hpp"

#include <fmt/format.h>

namespace busbw {

std::string process_ranks_text(int process, int ranks_per_process) {
  const int first = process * ranks_per_process;
  if (ranks_per_process == 1) return fmt::format("rank {}", first);
  return fmt::format("ranks {} to {}", first, first + ranks_per_process - 1);
}

}  // namespace busbw
