#pragma once
// The one way to say something on stderr.
#include <string_view>

namespace busbw {

/// Writes "who: sentence" and a line break to stderr at once. That stderr may be closed or full is no error.
void print_stderr(std::string_view who, std::string_view sentence) noexcept;

}  // namespace busbw
