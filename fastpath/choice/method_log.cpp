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

std::string text_of(const MethodConfig& choice) {
  if (choice.method == Method::nccl) return "nccl";
  return fmt::format("{} blocks={} threads={}", name(choice.method), choice.blocks, choice.threads);
}

std::string with_process(const std::string& place) {
  std::string file;
  for (std::size_t i = 0; i < place.size(); ++i) {
    if (place.compare(i, 2, "%p") == 0) {
      file += std::to_string(getpid());
      ++i;
    } else {
      file += place[i];
    }
  }
  return file;
}

}  // namespace

void MethodLog::log_operation(const StartedOperation& what) noexcept try {
  if (!is_on()) return;
  const std::string line = fmt::format("{} {} {} B {} ranks={}: {}", name(what.collective), what.type, what.size_bytes,
                                       what.in_place ? "in place" : "out of place", what.ranks, text_of(what.choice));
  {
    const std::lock_guard lock(mutex_);
    if (!said_.insert(line).second) return;
  }
  write(line);
} catch (const std::exception&) {
  // Without memory for a line it is not written; the operation goes on.
}

void MethodLog::log_message(std::string_view sentence) noexcept try {
  if (is_on()) write(sentence);
} catch (const std::exception&) {
  // As above.
}

void MethodLog::write(std::string_view sentence) {
  if (place_ == "stderr") return print_stderr("busbw fastpath", sentence);
  const std::string line = printable(sentence) + "\n";
  const std::string file = with_process(place_);
  const int descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  const bool written =
      descriptor >= 0 && ::write(descriptor, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  const int error = errno;
  if (descriptor >= 0) close(descriptor);
  if (!written && !complained_.exchange(true))
    print_stderr("libbusbw_nccl.so",
             fmt::format("BUSBW_FASTPATH_LOG={} cannot be written to: {}; name another file, or stderr", place_,
                         std::generic_category().message(error)));
}

MethodLog& log() noexcept {
  // Never freed: calls may come after main().
  static MethodLog* const kept = new MethodLog(settings().log);
  return *kept;
}

}  // namespace busbw::fastpath
