#pragma once
// Summarizes a series of times.
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "values/run_result.hpp"

namespace busbw {

/// Mean, order statistics and spread of at least one sample, in seconds. Percentiles are nearest-rank. The standard
/// deviation is that of the population, as in nccl-tests. The median of an even number is the mean of the middle two.
Statistics summarize(std::span<const double> samples_s);

/// Positions (1-based) of the two sorted samples that enclose the median with at least 95 % probability, for any
/// distribution: the interval of the sign test. None below 6 samples, because no pair is wide enough.
std::optional<std::pair<std::size_t, std::size_t>> median_ci95_positions(std::size_t samples);

}  // namespace busbw
