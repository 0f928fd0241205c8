#pragma once
// Path and build id of the running program.
#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace busbw {

/// Returns the resolved path of the program, or nothing if /proc does not show it.
std::optional<std::string> program_path();

/// Returns the GNU build id in hexadecimal, as `readelf -n` and `file` print it. The build id is the linker's hash of
/// the program, so builds of one version have different ids. Nothing if the program has no build id.
std::optional<std::string> program_build_id();

/// Finds the build id in a note segment as the loader maps it. Each note has a header, owner name and content, padded
/// to `alignment` bytes (4 or 8).
std::optional<std::string> build_id_in_notes(std::span<const std::byte> notes, std::size_t alignment);

}  // namespace busbw
