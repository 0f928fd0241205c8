#pragma once
// Messages on stderr.
#include <string_view>

namespace busbw {

/// Writes "program: sentence" and a newline to stderr in one call. Ignores a closed or full stderr.
void print_stderr(std::string_view program, std::string_view sentence) noexcept;

}  // namespace busbw
