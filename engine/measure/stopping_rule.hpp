#pragma once
// When to stop sampling.
#include <cstddef>
#include <optional>
#include <span>

#include "values/run_result.hpp"

namespace busbw {

/// Samples come in batches of nccl-tests' -n; after each batch the rule says whether they are enough.
struct StoppingRule {
  std::optional<double> target_ci;   // half-width of the median's 95 % interval, as a share of the median
  std::optional<double> max_time_s;  // since sampling began
  std::size_t sample_limit = 100'000;

  /// Why to stop, or nothing to go on. Without target and time budget one batch is the measurement.
  std::optional<StopReason> decide(std::span<const double> iteration_s, double elapsed_s) const;
};

}  // namespace busbw
