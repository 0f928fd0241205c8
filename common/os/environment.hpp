#pragma once
// Environment variables behind a function pointer, so that tests can pass their own.
#include <optional>
#include <string>

namespace busbw {

/// Function that returns the value of a variable, or nothing if it is not set.
using Environment = std::optional<std::string> (*)(const char* variable);

/// Returns the value, or nothing if the variable is unset or empty. Job scripts often leave empty variables behind.
inline std::optional<std::string> nonempty_variable(Environment environment, const char* variable) {
  auto value = environment(variable);
  if (value && value->empty()) return std::nullopt;
  return value;
}

/// Returns the value of a variable of this process, or nothing if it is unset.
std::optional<std::string> process_environment(const char* variable);

}  // namespace busbw
