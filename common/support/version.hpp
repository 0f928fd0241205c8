#pragma once
// The version of the program, as pyproject.toml has it.
#include <string_view>

namespace busbw {

/// "0.1.0".
std::string_view version();

}  // namespace busbw
