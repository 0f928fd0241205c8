#pragma once
// What one rank measured of one placement of one case.
#include <cstdint>
#include <optional>
#include <vector>

#include "backends/backend.hpp"

namespace busbw {

/// By the host's clock, of batches from a barrier until all operations were done. Not per operation.
struct HostTiming {
  double elapsed_s = 0;  // the `time`
  double issue_s = 0;    // what of that the host was busy issuing operations
  std::uint64_t operations = 0;

  /// A field that is new does not compile before it is added, too.
  HostTiming& operator+=(const HostTiming& more) {
    const auto& [more_elapsed_s, more_issue_s, more_operations] = more;
    elapsed_s += more_elapsed_s;
    issue_s += more_issue_s;
    operations += more_operations;
    return *this;
  }
};

struct Samples {
  /// By the stamps, per operation: one for each iteration, in batches that each begin at a barrier.
  std::vector<double> iteration_s = {};
  std::uint64_t skipped_iterations = 0;  // iterations between stamps that are not among them: first ones of graphs
  /// The first one after a barrier, in which this rank waited for others. Not per operation; missing where all began
  /// together.
  std::optional<double> first_iteration_s = {};

  HostTiming total = {};

  /// By the device's clock, without launching and without waiting for late ranks. Not per operation.
  double device_s = 0;
  std::uint64_t device_operations = 0;  // 0: there is no device time

  /// Whether operations go on after their call has returned, so that issuing and doing are two things.
  bool on_device = false;
  std::optional<DeviceClockState> before = {};  // between the warm-up and the first timed operation
  std::optional<DeviceClockState> after = {};  // while the last ones ran, or just after them
};

}  // namespace busbw
