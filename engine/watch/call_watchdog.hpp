#pragma once
// Time limit for driver and library calls that are made before ranks start, such as the search for GPUs. Watchdog
// (watchdog.hpp) covers the ranks afterwards.
#include <functional>
#include <string>
#include <thread>

#include "common/os/descriptor.hpp"
#include "common/support/error.hpp"

namespace busbw {

/// Message and exit code with which the process ends.
struct CallFailure {
  ExitCode exit;
  std::string sentence;
};

/// Ends the process from its own thread after `limit_s`, or on a signal that a SignalMask blocks. The calling thread
/// cannot do this, because a driver call may never return. Use it only while nothing is measured and no output is open.
class CallWatchdog {
 public:
  /// `activity` completes "while ...", for example "looking for GPUs". `on_failure` runs in the watchdog's thread just
  /// before the process ends, and may end it itself. Throws EnvironmentError if no thread or descriptor is available.
  CallWatchdog(std::string activity, double limit_s, std::function<void(const CallFailure&)> on_failure);
  ~CallWatchdog();
  CallWatchdog(const CallWatchdog&) = delete;
  CallWatchdog& operator=(const CallWatchdog&) = delete;

 private:
  void watch() const;

  const std::string activity_;
  const double limit_s_;
  const std::function<void(const CallFailure&)> on_failure_;
  const Descriptor answered_;  // readable when the call has returned
  std::thread thread_;
};

}  // namespace busbw
