#pragma once
// Ranks of one process, for messages.
#include <string>

namespace busbw {

/// Returns the ranks of a process: "rank 3" or "ranks 4 to 7".
std::string process_ranks_text(int process, int ranks_per_process);

}  // namespace busbw
