// Selects by the duration of an iteration. An overhead is visible if the iteration is shorter than the constant of this
// overhead.
#include "measure/sampling/strategy_selection.hpp"

#include "measure/sampling/device_event_strategy.hpp"
#include "measure/sampling/gated_event_strategy.hpp"
#include "measure/sampling/host_clock_strategy.hpp"

namespace busbw {
namespace {

// Reading the clock and counting progress takes about 30 ns: 0.3 % of an iteration of this length.
constexpr double kClockVisibleBelowS = 10e-6;
// The host launches an iteration while the previous one runs. An iteration of this length is long enough for that.
constexpr double kLaunchVisibleBelowS = 300e-6;
// An event between two NCCL kernels costs a GPU's stream up to 7 us: 0.3 % of an iteration of this length.
constexpr double kEventVisibleBelowS = 2.5e-3;
// Waiting for a graph before the next launch costs about 20 us, 0.4 % of a graph of this length. The first iteration of
// a graph also waits for the launches of other ranks.
constexpr double kGraphLaunchVisibleBelowS = 5e-3;

}  // namespace

VisibleOverhead visible_overhead(const IterationRunner& runner, double iteration_s) {
  // With untimed barriers, only timestamps around each iteration exclude the barriers. So samples give all times.
  if (runner.has_untimed_barriers()) return VisibleOverhead::none;

  if (!runner.has_device_clock())
    return iteration_s < kClockVisibleBelowS ? VisibleOverhead::timestamps : VisibleOverhead::none;

  const double graph_s = iteration_s * static_cast<double>(runner.iterations());
  if (runner.uses_graphs() && graph_s < kGraphLaunchVisibleBelowS) return VisibleOverhead::launches;
  if (iteration_s < kLaunchVisibleBelowS) return VisibleOverhead::launches;
  if (iteration_s < kEventVisibleBelowS) return VisibleOverhead::timestamps;
  return VisibleOverhead::none;
}

TotalTime total_time(VisibleOverhead overhead) {
  return overhead == VisibleOverhead::none ? TotalTime::from_samples : TotalTime::separate;
}

std::unique_ptr<SamplingStrategy> make_strategy(IterationRunner& runner, VisibleOverhead overhead) {
  if (!runner.has_device_clock()) return std::make_unique<HostClockStrategy>(runner, total_time(overhead));
  if (overhead == VisibleOverhead::launches) return std::make_unique<GatedEventStrategy>(runner);
  return std::make_unique<DeviceEventStrategy>(runner, total_time(overhead));
}

}  // namespace busbw
