#pragma once
// Messages on stderr, for engine and fast path.
#include <string_view>

namespace busbw {

/// Writes "program: message" and a newline to stderr in one call. Ignores a closed or full stderr.
void print_stderr(std::string_view program, std::string_view message) noexcept;

}  // namespace busbw
