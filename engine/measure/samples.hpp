#pragma once
// Measurements of one rank for one placement of one case.
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "values/run_result.hpp"

namespace busbw {

/// Host-clock times, summed over batches. The time of a batch begins after the barrier that aligns the ranks, and ends
/// when all its operations are done. With -z 3 only the iterations count, not the barriers between them.
struct HostTiming {
  double elapsed_s = 0;  // divided by `operations`, this gives the `time` column
  double issue_s = 0;  // part of elapsed_s that the host spent issuing operations
  std::uint64_t operations = 0;

  /// Adds all fields. The binding names every field, so that a new field does not compile until it is added.
  HostTiming& operator+=(const HostTiming& more) {
    const auto& [more_elapsed_s, more_issue_s, more_operations] = more;
    elapsed_s += more_elapsed_s;
    issue_s += more_issue_s;
    operations += more_operations;
    return *this;
  }
};

/// Delay of this rank from the end of one iteration to the start of the next one, by the host clock.
struct StartDelay {
  double median_s = 0;
  std::optional<std::pair<double, double>> median_ci95_s = {};  // 95 % interval; none if there are too few iterations

  /// For messages between ranks, see HasMembers.
  static auto members(auto& self) { return std::tie(self.median_s, self.median_ci95_s); }
};

/// Times of one rank for one placement, in seconds.
struct Samples {
  /// Samples in order of execution: one per iteration, its duration divided by its number of operations.
  std::vector<double> operation_s = {};
  /// Iterations without a sample: the first of each graph launch, in which this rank waited for others.
  std::uint64_t skipped_iterations = 0;
  /// Duration of the whole first iteration after a barrier, in which this rank waited for later ranks. `operation_s`
  /// may contain this iteration, too. None if a gate made all ranks begin together.
  std::optional<double> first_iteration_s = {};
  /// None if operations run after their calls have returned.
  std::optional<StartDelay> start_delay = {};

  HostTiming total = {};

  /// Total device-clock time of `device_operations` operations, without launches and waits for late ranks.
  double device_s = 0;
  std::uint64_t device_operations = 0;  // 0: no device time

  /// Clock of the samples. Unless it is the host's, operations run after their calls have returned.
  SampleClock clock = SampleClock::host;
  std::optional<DeviceClockState> clock_before = {};  // between the warm-up and the first timed operation
  std::optional<DeviceClockState> clock_after = {};  // during the last operations, or just after them

  /// Algorithms of this rank's operations in the warm-up. Empty if they are unknown, or may differ from the timed ones.
  std::vector<AlgorithmChoice> algorithms = {};

  /// For messages between ranks, see HasMembers.
  static auto members(auto& self) {
    return std::tie(self.operation_s, self.skipped_iterations, self.first_iteration_s, self.start_delay, self.total,
                    self.device_s, self.device_operations, self.clock, self.clock_before, self.clock_after,
                    self.algorithms);
  }
};

}  // namespace busbw
