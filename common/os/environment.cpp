// Reads variables of this process by getenv.
#include "common/os/environment.hpp"

#include <cstdlib>

namespace busbw {

std::optional<std::string> process_environment(const char* variable) {
  const char* value = std::getenv(variable);
  if (!value) return std::nullopt;
  return value;
}

}  // namespace busbw
