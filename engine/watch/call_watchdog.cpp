// The second thread of a watched call. It ends the process if the call has not returned when the limit passes or a
// signal arrives.
#include "watch/call_watchdog.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>

#include "common/os/signal_mask.hpp"
#include "measure/clock.hpp"

namespace busbw {
namespace {

constexpr int kPollMs = 50;  // interval at which signals and the limit are checked

/// Returns the failure if a signal arrived or the limit has passed.
std::optional<Failure> detect_failure(double waited_s, double limit_s, const std::string& activity) {
  if (const auto interrupt = wait_for_interrupt(0))
    return Failure{interrupt->exit(), fmt::format("{} while {}", interrupt->what(), activity)};
  if (waited_s < limit_s) return std::nullopt;
  return Failure{
      ExitCode::rank_lost,
      fmt::format("no answer for {:g} s (-T) while {}; raise -T if the call is only slow; if the driver hangs, check "
                  "nvidia-smi and dmesg, stop programs that hold a GPU, restart the machine, or use --backend host",
                  limit_s, activity)};
}

}  // namespace

CallWatchdog::Guard::Guard(const CallWatchdog& watchdog, const std::string& activity)
    : call_returned_(eventfd(0, EFD_CLOEXEC)) {
  if (!call_returned_.is_open())
    throw EnvironmentError(fmt::format("cannot open an event descriptor: {}; raise the limit on open files (ulimit -n)",
                                       std::strerror(errno)));
  try {
    thread_ = std::thread(
        [&watchdog, activity, call_returned = call_returned_.number()] { watchdog.watch(activity, call_returned); });
  } catch (const std::system_error& error) {
    throw EnvironmentError(
        fmt::format("cannot start a thread: {}; raise the limit on threads (ulimit -u)", error.what()));
  }
}

CallWatchdog::Guard::~Guard() {
  eventfd_write(call_returned_.number(), 1);
  thread_.join();
}

void CallWatchdog::watch(const std::string& activity, int call_returned) const {
  const double start_s = monotonic_s();
  pollfd entry{call_returned, POLLIN, 0};
  // poll is positive when the call has returned, 0 at the end of an interval, and negative if it was interrupted.
  while (poll(&entry, 1, kPollMs) <= 0) {
    if (const auto failure = detect_failure(monotonic_s() - start_s, limit_s_, activity)) {
      on_failure_(*failure);
      _exit(static_cast<int>(failure->exit));
    }
  }
}

}  // namespace busbw
