#include "output/private_stdout.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

namespace busbw {

int claim_stdout() {
  std::fflush(stdout);
  const int own = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (own < 0) return STDOUT_FILENO;
  if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    close(own);
    return STDOUT_FILENO;
  }
  // A pipe's reader would get it in blocks, late and among the lines of others.
  static_cast<void>(std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ));
  return own;
}

}  // namespace busbw
