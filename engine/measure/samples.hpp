#pragma once
// Measurements of one rank for one placement of one case.
#include <cstdint>
#include <optional>
#include <vector>

#include "backends/backend.hpp"

namespace busbw {

/// Host-clock times of batches, from a barrier until all operations are done. Not per operation.
struct HostTiming {
  double elapsed_s = 0;  // the `time` column
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

struct Samples {
  /// Times between timestamps, per operation: one per iteration, in batches that each begin at a barrier.
  std::vector<double> iteration_s = {};
  std::uint64_t skipped_iterations = 0;  // iterations without a sample: the first ones of graphs
  /// Time of the first iteration after a barrier, in which this rank waited for others. Not per operation. None if all
  /// ranks began together.
  std::optional<double> first_iteration_s = {};

  HostTiming total = {};

  /// Device-clock time without launches and waits for late ranks. Not per operation.
  double device_s = 0;
  std::uint64_t device_operations = 0;  // 0: no device time

  /// True if a call returns before its operation is done, so that issuing and executing differ.
  bool on_device = false;
  std::optional<DeviceClockState> before = {};  // clock state between the warm-up and the first timed operation
  std::optional<DeviceClockState> after = {};  // clock state during the last operations, or just after them
};

}  // namespace busbw
