// Counts ticks with a timer of the kernel (timerfd).
#include "common/os/ticker.hpp"

#include <fmt/format.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "common/support/error.hpp"

namespace busbw {

Ticker::Ticker() : timer_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {
  constexpr long kTickNs = kTickMs * 1'000'000L;
  const itimerspec period{{0, kTickNs}, {0, kTickNs}};
  if (!timer_.is_open() || timerfd_settime(timer_.number(), 0, &period, nullptr) != 0)
    throw EnvironmentError(
        fmt::format("cannot create a timer (timerfd): {}; raise the limit on open files (ulimit -n), or allow timers "
                    "in this container",
                    std::strerror(errno)));
}

std::uint64_t Ticker::take_elapsed() const {
  std::uint64_t ticks = 0;
  return read(timer_.number(), &ticks, sizeof ticks) == sizeof ticks ? ticks : 0;
}

TickLimit::TickLimit(double limit_s) : limit_ticks_(static_cast<std::uint64_t>(ticks_of(limit_s))) {}

void TickLimit::restart() {
  static_cast<void>(ticker_.take_elapsed());
  elapsed_ticks_ = 0;
}

bool TickLimit::has_passed() {
  elapsed_ticks_ += ticker_.take_elapsed();
  return elapsed_ticks_ >= limit_ticks_;
}

void sleep_tick() { std::this_thread::sleep_for(std::chrono::milliseconds(kTickMs)); }

int ticks_of(double seconds) {
  constexpr double kMaxSeconds = 1e7;
  return static_cast<int>(std::min(seconds, kMaxSeconds) * kTicksPerS);
}

}  // namespace busbw
