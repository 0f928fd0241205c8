#pragma once
// Line about GPU memory. With -M, this line follows the table, as in nccl-tests.
#include <cstdint>
#include <string>
#include <vector>

#include "values/run_result.hpp"

namespace busbw {

/// Size in binary units with about three digits, as nccl-tests prints bytes: "1.24 GB", "345 MB", "0.00 B".
std::string memory_text(std::int64_t bytes);

/// Returns "# GPU memory usage     : Initialization ... | User-Allocated ... | Collective ... | Total  ...". Each
/// figure is the maximum over ranks, or N/A if no rank knows it; the total is the sum of the known figures. Empty if
/// the ranks were not queried.
std::string memory_line(const std::vector<MemoryUse>& ranks);

}  // namespace busbw
