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

#include "measure/clock.hpp"
#include "watch/job_runner.hpp"

namespace busbw {
namespace {

constexpr int kLookMs = 50;

std::optional<CallFailure> after(double waited_s, double limit_s, const std::string& what) {
  try {
    throw_if_interrupted();
  } catch (const Error& error) {
    return CallFailure{error.exit(), fmt::format("{} while {}", error.what(), what)};
  }
  if (waited_s < limit_s) return std::nullopt;
  return CallFailure{
      ExitCode::rank_lost,
      fmt::format("no answer for {:g} s (-T) while {}: raise -T where it only takes long; where the driver hangs, look "
                  "at nvidia-smi and dmesg, end what holds a GPU or restart the machine, or use --backend host",
                  limit_s, what)};
}

}  // namespace

CallWatchdog::CallWatchdog(std::string what, double limit_s, std::function<void(const CallFailure&)> last_words)
    : what_(std::move(what)),
      limit_s_(limit_s),
      last_words_(std::move(last_words)),
      answered_(eventfd(0, EFD_CLOEXEC)) {
  if (answered_.number() < 0)
    throw EnvironmentError(
        fmt::format("no descriptor is left: {}; raise the limit on open files (ulimit -n)", std::strerror(errno)));
  try {
    thread_ = std::thread([this] { watch(); });
  } catch (const std::system_error& error) {
    throw EnvironmentError(
        fmt::format("no thread could be started: {}; raise the limit on threads (ulimit -u)", error.what()));
  }
}

CallWatchdog::~CallWatchdog() {
  eventfd_write(answered_.number(), 1);
  thread_.join();
}

void CallWatchdog::watch() const {
  const double start_s = monotonic_s();
  pollfd answer{answered_.number(), POLLIN, 0};
  while (poll(&answer, 1, kLookMs) <= 0) {
    if (const auto end = after(monotonic_s() - start_s, limit_s_, what_)) {
      last_words_(*end);
      _exit(static_cast<int>(end->exit));
    }
  }
}

}  // namespace busbw
