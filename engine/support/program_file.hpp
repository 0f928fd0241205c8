#pragma once
// The file that this program runs from: where it is, and which build it is.
#include <optional>
#include <string>

namespace busbw {

/// With links followed. Nothing where /proc does not tell.
std::optional<std::string> program_path();

/// The linker's hash of what it put together (GNU build id), in hexadecimal, as `readelf -n` and `file` show it: two builds of
/// one version differ in it. Nothing where the program was linked without.
std::optional<std::string> program_build();

}  // namespace busbw
