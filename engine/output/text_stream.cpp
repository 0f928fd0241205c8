// Writes to a reader that may be slow or gone.
#include "output/text_stream.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <system_error>

#include "common/support/error.hpp"

namespace busbw {

/// Waits until the reader has read enough. Throws Error(ExitCode::output_closed) if `should_drop_` returns true first.
void TextStream::wait_until_writable() {
  constexpr int kPollMs = 100;
  pollfd poll_entry{descriptor_, POLLOUT, 0};
  while (poll(&poll_entry, 1, kPollMs) == 0) {
    const bool is_dropped = should_drop_ && should_drop_();
    if (!is_dropped) continue;
    failed_ = true;
    throw Error(ExitCode::output_closed,
                "the reader of standard output does not read; the remaining output is dropped");
  }
}

void TextStream::write(std::string_view text) {
  if (failed_) return;
  while (!text.empty()) {
    wait_until_writable();
    // A pipe that is writable accepts at least this much without blocking.
    const ssize_t written = ::write(descriptor_, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      failed_ = true;
      if (error == EPIPE) throw Error(ExitCode::output_closed, "the reader of standard output closed it; the run ends");
      throw EnvironmentError(fmt::format("cannot write to standard output: {}; free disk space or redirect it",
                                         std::system_category().message(error)));
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace busbw
