// Formats the lines of BUSBW_FASTPATH_LOG and appends them to its file.
#include "fastpath/choice/method_log.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "common/support/printable.hpp"
#include "common/support/stderr_message.hpp"
#include "fastpath/choice/settings.hpp"

namespace busbw::fastpath {
namespace {

std::string config_text(const MethodConfig& config) {
  if (config.method == Method::nccl) return "nccl";
  return fmt::format("{} blocks={} threads={}", name(config.method), config.blocks, config.threads);
}

/// Replaces each "%p" by the process id.
std::string expand_process_id(const std::string& destination) {
  std::string path;
  for (std::size_t i = 0; i < destination.size(); ++i) {
    if (destination.compare(i, 2, "%p") == 0) {
      path += std::to_string(getpid());
      ++i;
    } else {
      path += destination[i];
    }
  }
  return path;
}

}  // namespace

void MethodLog::log_operation(const StartedOperation& operation) noexcept try {
  if (!is_on()) return;
  const std::string line =
      fmt::format("{} {} {} B {} ranks={}: {}", name(operation.collective), operation.type, operation.size_bytes,
                  operation.in_place ? "in place" : "out of place", operation.ranks, config_text(operation.config));
  {
    const std::lock_guard lock(mutex_);
    if (!logged_lines_.insert(line).second) return;
  }
  write(line);
} catch (const std::exception&) {
  // The line is lost, for example because memory is missing. The operation continues.
}

void MethodLog::log_message(std::string_view message) noexcept try {
  if (is_on()) write(message);
} catch (const std::exception&) {
  // The message is lost, for example because memory is missing.
}

void MethodLog::write(std::string_view message) {
  if (destination_ == "stderr") {
    print_stderr("busbw fastpath", message);
    return;
  }
  const std::string line = printable(message) + "\n";
  const std::string path = expand_process_id(destination_);
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  const ssize_t written_bytes = descriptor >= 0 ? ::write(descriptor, line.data(), line.size()) : -1;
  const int error = written_bytes < 0 ? errno : 0;
  if (descriptor >= 0) close(descriptor);
  if (written_bytes != static_cast<ssize_t>(line.size()) && !error_reported_.exchange(true)) {
    const std::string reason = error != 0 ? std::generic_category().message(error)
                                          : "only a part of a line was written, so the disk may be full";
    print_stderr("libbusbw_nccl.so",
                 fmt::format("BUSBW_FASTPATH_LOG={}: cannot write the log: {}; name another file, or stderr",
                             destination_, reason));
  }
}

MethodLog& log() noexcept {
  // Never freed, because a program may call NCCL after main() has returned.
  static MethodLog* const process_log = new MethodLog(settings().log);
  return *process_log;
}

}  // namespace busbw::fastpath
