#pragma once
// SELECTS THE SAMPLING STRATEGY: the duration of an iteration decides how a batch is timed.
// docs/explanation/measuring.md has the table.
#include <memory>

#include "measure/sampling/iteration_runner.hpp"
#include "measure/sampling/sampling_strategy.hpp"

namespace busbw {

/// Measuring overhead that is visible in an iteration's time, in increasing order: shorter iterations show more
/// overhead.
enum class VisibleOverhead {
  none,
  timestamps,  // timestamps, but not launches
  launches,    // launches of operations, and timestamps
};

/// Overhead that is visible in iterations of this length.
VisibleOverhead visible_overhead(const IterationRunner& runner, double iteration_s);

/// Source of the total time that this overhead requires.
TotalTime total_time(VisibleOverhead overhead);

/// Returns the strategy for iterations with this overhead. `runner` must outlive the strategy.
std::unique_ptr<SamplingStrategy> make_strategy(IterationRunner& runner, VisibleOverhead overhead);

}  // namespace busbw
