#pragma once
// Lists of numbers, such as ranks, for messages.
#include <span>
#include <string>

namespace busbw {

/// Returns "", "3", "3 and 5", or the first eight and a count: "3, 4, 5, 6, 7, 8, 9, 10 and 61 more".
std::string number_list_text(std::span<const int> numbers);

/// Returns the ranks of a process: "rank 3" or "ranks 4 to 7". Process 0 has the first ranks, process 1 the next ones.
std::string process_ranks_text(int process, int ranks_per_process);

}  // namespace busbw
