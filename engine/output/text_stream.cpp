#include "output/text_stream.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string>
#include <system_error>

#include "common/support/error.hpp"

namespace busbw {

/// Waits for a reader that is slow, but not beyond the end of the run.
void TextStream::wait_for_room() {
  constexpr int kLookMs = 100;
  pollfd place{descriptor_, POLLOUT, 0};
  while (poll(&place, 1, kLookMs) == 0) {
    if (!gives_up_ || !gives_up_()) continue;
    failed_ = true;
    throw Error(ExitCode::output_closed, "the reader of standard output does not read; the rest is dropped");
  }
}

void TextStream::write(std::string_view text) {
  if (failed_) return;
  while (!text.empty()) {
    wait_for_room();
    // A pipe that says it has room has it for this much.
    const ssize_t written = ::write(descriptor_, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      failed_ = true;
      if (error == EPIPE)
        throw Error(ExitCode::output_closed, "the reader of standard output closed it; the run ends here");
      throw EnvironmentError(fmt::format("cannot write to standard output: {}; write it to a place with room",
                                         std::system_category().message(error)));
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace busbw
