#pragma once
#include <cstddef>

namespace busbw {

/// Raises the soft limit on open files to `needed`, at most to the hard limit. Returns the resulting limit, which may
/// be below or above `needed`.
std::size_t raise_open_file_limit(std::size_t needed);

}  // namespace busbw
