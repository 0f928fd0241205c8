// Tests the target, the time budget and the sample limit, in this order.
#include "measure/sampling/stopping_rule.hpp"

#include "measure/statistics.hpp"

namespace busbw {

std::optional<StopReason> StoppingRule::decide(std::span<const double> samples_s, double elapsed_s) const {
  if (stops_after_one_batch()) return StopReason::iterations;
  if (target_ci) {
    const Statistics statistics = summarize(samples_s);
    if (const auto& interval = statistics.median_ci95_s) {
      const double half_width = (interval->second - interval->first) / 2;
      if (half_width <= *target_ci * statistics.median_s) return StopReason::target_ci;
    }
  }
  if (max_time_s && elapsed_s >= *max_time_s) return StopReason::max_time;
  if (samples_s.size() >= sample_limit) return StopReason::sample_limit;
  return std::nullopt;
}

}  // namespace busbw
