#pragma once
// A series of times becomes its summary.
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "values/run_result.hpp"

namespace busbw {

/// Mean, order statistics and spread of at least one sample, in seconds. Percentiles are nearest-rank, and the standard
/// deviation is the population's, as in nccl-tests; the median is the usual one (the mean of the middle two).
Statistics summarise(std::span<const double> samples_s);

/// Ranks (1-based) of the order statistics that enclose the median with at least 95 % probability, whatever the
/// distribution: the sign test's interval. Missing below 6 samples, where no pair does.
std::optional<std::pair<std::size_t, std::size_t>> median_ci95_ranks(std::size_t samples);

}  // namespace busbw
