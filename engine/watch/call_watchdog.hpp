#pragma once
// Ends a program whose driver or library does not answer before there are ranks that a watchdog could look at.
#include <functional>
#include <string>
#include <thread>

#include "common/os/descriptor.hpp"
#include "common/support/error.hpp"

namespace busbw {

/// Why the process is to end: a sentence and its exit code.
struct CallFailure {
  ExitCode exit;
  std::string sentence;
};

/// While one exists, its thread ends the process when `limit_s` has passed, or when a signal comes that a SignalMask
/// holds back: the thread that asked cannot, since a call into a driver has no limit. Nothing is measured or open by
/// then.
class CallWatchdog {
 public:
  /// `what`: what is going on, as in "looking for GPUs". `last_words` is called in the guard's thread just before the
  /// end, and may end the process itself. Throws EnvironmentError where the system has no thread or descriptor left for
  /// it.
  CallWatchdog(std::string what, double limit_s, std::function<void(const CallFailure&)> last_words);
  ~CallWatchdog();
  CallWatchdog(const CallWatchdog&) = delete;
  CallWatchdog& operator=(const CallWatchdog&) = delete;

 private:
  void watch() const;

  const std::string what_;
  const double limit_s_;
  const std::function<void(const CallFailure&)> last_words_;
  const Descriptor answered_;  // readable once there is an answer
  std::thread thread_;
};

}  // namespace busbw
