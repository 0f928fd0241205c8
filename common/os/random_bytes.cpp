// Random bytes from the system (getrandom).
#include "common/os/random_bytes.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "common/support/error.hpp"

namespace busbw {

void fill_randomly(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t filled = getrandom(bytes.data(), bytes.size(), 0);
    if (filled < 0 && errno == EINTR) continue;
    if (filled < 0)
      throw EnvironmentError(fmt::format("no random numbers from the system (getrandom): {}; allow this system call",
                                         std::strerror(errno)));
    bytes = bytes.subspan(static_cast<std::size_t>(filled));
  }
}

}  // namespace busbw
