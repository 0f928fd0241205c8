#pragma once
// Decides when to stop sampling.
#include <cstddef>
#include <optional>
#include <span>

#include "values/run_result.hpp"

namespace busbw {

/// Rule that is applied after each batch of -n samples.
struct StoppingRule {
  std::optional<double> target_ci;  // half-width of the median's 95 % interval, as a fraction of the median
  std::optional<double> max_time_s;  // since the start of sampling
  std::size_t sample_limit = 100'000;  // stops even if the target is not met

  /// True without a target and a time budget: the -n iterations of one batch are enough.
  bool stops_after_one_batch() const { return !target_ci && !max_time_s; }
  /// Returns the reason to stop, or nothing to continue. `samples_s` has the samples of all batches so far.
  std::optional<StopReason> decide(std::span<const double> samples_s, double elapsed_s) const;
};

}  // namespace busbw
