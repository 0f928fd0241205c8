#pragma once
// JSON members of a measurement that the record and -J share: samples, and the comparisons of --skew and --with.
#include <optional>
#include <vector>

#include "output/json_builder.hpp"
#include "values/run_result.hpp"

namespace busbw {

/// Writes the member "samples_us": the time of each rank and iteration.
void write_samples(JsonBuilder& json, const std::vector<std::vector<double>>& rank_samples_s);
/// Writes the member "skew"; null without --skew. SkewComparison explains the values.
void write_skew(JsonBuilder& json, const std::optional<SkewComparison>& comparison);
/// Writes the member "together"; null without --with. TogetherResult explains the values.
void write_together(JsonBuilder& json, const std::optional<TogetherResult>& result);

}  // namespace busbw
