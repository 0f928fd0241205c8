#pragma once
// The file that this program runs from: where it is, and which build it is.
#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace busbw {

/// With links followed. Nothing where /proc does not tell.
std::optional<std::string> program_path();

/// The linker's hash of what it put together (GNU build id), in hexadecimal, as `readelf -n` and `file` show it: two
/// builds of one version differ in it. Nothing where the program was linked without.
std::optional<std::string> program_build_id();

/// The build id among notes of a program as the loader maps them: each is a header, its owner's name and what it says,
/// padded to `alignment` bytes, 4 or 8.
std::optional<std::string> build_id_in_notes(std::span<const std::byte> notes, std::size_t alignment);

}  // namespace busbw
