#pragma once
// Version of the program, set from pyproject.toml by the build.
#include <string_view>

namespace busbw {

/// Returns the version, for example "0.1.0".
std::string_view version();

}  // namespace busbw
