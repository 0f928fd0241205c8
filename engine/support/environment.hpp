#pragma once
// The process's environment as a value that is passed in, so that tests bring their own.
#include <optional>
#include <string>

namespace busbw {

/// Looks a variable up (missing: not set).
using Environment = std::optional<std::string> (*)(const char* variable);

/// The same, from the process's environment.
std::optional<std::string> process_environment(const char* variable);

}  // namespace busbw
