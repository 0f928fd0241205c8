#pragma once
// Time limit for driver and library calls that are made before ranks start, such as the search for GPUs. Watchdog
// (watchdog.hpp) covers the ranks afterwards.
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "common/os/descriptor.hpp"
#include "rendezvous/team/job.hpp"

namespace busbw {

/// Makes calls with a time limit. If a call takes longer than `limit_s`, a second thread ends the process with exit
/// code rank_lost. It also ends the process, with the signal's code, on a signal that a SignalMask blocks, such as
/// Ctrl-C. Use this class only while nothing is measured and no output is open, because the process ends at once.
class CallWatchdog {
 public:
  /// `on_failure` runs in the second thread just before the process ends. It may also end the process itself, with
  /// another exit code.
  CallWatchdog(double limit_s, std::function<void(const Failure&)> on_failure)
      : limit_s_(limit_s), on_failure_(std::move(on_failure)) {}

  /// Returns the result of `work`. `activity` completes "while ...", for example "looking for GPUs". Throws
  /// EnvironmentError if no thread or descriptor is available.
  template <typename Work>
  auto operator()(const std::string& activity, const Work& work) const {
    const Guard guard(*this, activity);
    return work();
  }

 private:
  /// Starts the second thread, and ends it when the call has returned.
  class Guard {
   public:
    Guard(const CallWatchdog& watchdog, const std::string& activity);
    ~Guard();

   private:
    const Descriptor call_returned_;  // readable when the call has returned
    std::thread thread_;
  };
  void watch(const std::string& activity, int call_returned) const;

  const double limit_s_;
  const std::function<void(const Failure&)> on_failure_;
};

}  // namespace busbw
