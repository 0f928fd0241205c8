#pragma once
// Warnings about a measurement, each with a remedy; make_row calls this. docs/explanation/measuring.md has the complete
// list of rules with reasons.
#include <string>
#include <vector>

#include "values/run_result.hpp"

namespace busbw {

/// Returns the warnings about `measurement`, from all its other fields except `together`. `ranks`: those of the group.
std::vector<std::string> measurement_warnings(const RunSettings& settings, const Measurement& measurement,
                                              const std::vector<RankInfo>& ranks);

}  // namespace busbw
