#pragma once
// nccl-tests' line about GPU memory (-M).
#include <cstdint>
#include <string>
#include <vector>

#include "values/run_result.hpp"

namespace busbw {

/// "1.24 GB", "345 MB", "0.00 B": binary units and about three digits, as nccl-tests prints bytes.
std::string memory_text(std::int64_t bytes);

/// "# GPU memory usage     : Initialization ... | User-Allocated ... | Collective ... | Total  ...", each the largest
/// of all ranks, N/A where no rank could tell; empty where nobody was asked.
std::string memory_line(const std::vector<RankMemory>& ranks);

}  // namespace busbw
