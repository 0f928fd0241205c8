// Prints a message with one system call, so that messages of several processes do not mix.
#include "common/support/stderr_message.hpp"

#include <unistd.h>

#include <exception>
#include <string>

#include "common/support/printable.hpp"

namespace busbw {

void print_stderr(std::string_view program, std::string_view message) noexcept {
  try {
    const std::string line = std::string(program) + ": " + printable(message) + "\n";
    [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, line.data(), line.size());
  } catch (const std::exception&) {
    // The message is lost, for example because memory is missing.
  }
}

}  // namespace busbw
