// Moves standard output to a private descriptor.
#include "output/private_stdout.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

namespace busbw {

int claim_stdout() {
  std::fflush(stdout);
  const int private_descriptor = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (private_descriptor < 0) return STDOUT_FILENO;
  if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    close(private_descriptor);
    return STDOUT_FILENO;
  }
  // Line buffering: full buffering would write large blocks late and into the middle of other lines of stderr.
  static_cast<void>(std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ));
  return private_descriptor;
}

}  // namespace busbw
