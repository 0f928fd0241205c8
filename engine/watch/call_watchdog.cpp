#include "watch/call_watchdog.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "common/os/signal_mask.hpp"
#include "measure/clock.hpp"

namespace busbw {
namespace {

constexpr int kPollMs = 50;  // interval at which signals and the limit are checked

/// Returns the failure if a signal arrived or the limit has passed.
std::optional<CallFailure> detect_failure(double waited_s, double limit_s, const std::string& activity) {
  if (const auto interrupt = wait_for_interrupt(0))
    return CallFailure{interrupt->exit(), fmt::format("{} while {}", interrupt->what(), activity)};
  if (waited_s < limit_s) return std::nullopt;
  return CallFailure{
      ExitCode::rank_lost,
      fmt::format("no answer for {:g} s (-T) while {}; raise -T if the call is only slow; if the driver hangs, check "
                  "nvidia-smi and dmesg, stop programs that hold a GPU, restart the machine, or use --backend host",
                  limit_s, activity)};
}

}  // namespace

CallWatchdog::CallWatchdog(std::string activity, double limit_s, std::function<void(const CallFailure&)> on_failure)
    : activity_(std::move(activity)),
      limit_s_(limit_s),
      on_failure_(std::move(on_failure)),
      answered_(eventfd(0, EFD_CLOEXEC)) {
  if (answered_.number() < 0)
    throw EnvironmentError(fmt::format("cannot open an event descriptor: {}; raise the limit on open files (ulimit -n)",
                                       std::strerror(errno)));
  try {
    thread_ = std::thread([this] { watch(); });
  } catch (const std::system_error& error) {
    throw EnvironmentError(
        fmt::format("cannot start a thread: {}; raise the limit on threads (ulimit -u)", error.what()));
  }
}

CallWatchdog::~CallWatchdog() {
  eventfd_write(answered_.number(), 1);
  thread_.join();
}

void CallWatchdog::watch() const {
  const double start_s = monotonic_s();
  pollfd answer{answered_.number(), POLLIN, 0};
  while (poll(&answer, 1, kPollMs) <= 0) {
    if (const auto failure = detect_failure(monotonic_s() - start_s, limit_s_, activity_)) {
      on_failure_(*failure);
      _exit(static_cast<int>(failure->exit));
    }
  }
}

}  // namespace busbw
