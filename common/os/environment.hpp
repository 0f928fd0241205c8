#pragma once
// The process's environment as a value that is passed in, so that tests bring their own.
#include <optional>
#include <string>

namespace busbw {

/// Looks a variable up (missing: not set).
using Environment = std::optional<std::string> (*)(const char* variable);

/// What it is set to: an empty variable, as job scripts leave it behind, is one that is not set.
inline std::optional<std::string> nonempty_variable(Environment environment, const char* variable) {
  auto value = environment(variable);
  return value && !value->empty() ? value : std::nullopt;
}

/// The same, from the process's environment.
std::optional<std::string> process_environment(const char* variable);

}  // namespace busbw
