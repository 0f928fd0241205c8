// Readings of the system's clocks.
#include "measure/clock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <thread>

namespace busbw {
namespace {

std::string formatted(const std::tm& time, const char* format) {
  std::array<char, 64> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), format, &time);
  return {text.data(), length};
}

}  // namespace

double monotonic_s() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::uint64_t unix_time_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

void wait_until_s(double time_s, const std::function<void()>& check) {
  constexpr double kPolledS = 200e-6;  // polled at the end, because a sleeping thread may wake up this late
  constexpr double kMaxSleepS = 0.1;  // between two calls of `check`
  for (double left_s = time_s - monotonic_s(); left_s > 0; left_s = time_s - monotonic_s()) {
    check();
    if (left_s > kPolledS)
      std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left_s - kPolledS, kMaxSleepS)));
  }
}

WallTime wall_time() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  std::tm local{};
  std::tm utc{};
  localtime_r(&now.tv_sec, &local);
  gmtime_r(&now.tv_sec, &utc);
  const long offset_min = local.tm_gmtoff / 60;
  return {formatted(local, "%Y-%m-%d %H:%M:%S"),
          fmt::format("{}.{:03}{}{:02}:{:02}", formatted(local, "%Y-%m-%dT%H:%M:%S"), now.tv_nsec / 1'000'000,
                      offset_min < 0 ? '-' : '+', std::labs(offset_min) / 60, std::labs(offset_min) % 60),
          formatted(utc, "%Y%m%dT%H%M%SZ")};
}

}  // namespace busbw
