#pragma once
// Limit on open files of this process (ulimit -n), for programs that need many sockets.
#include <cstddef>

namespace busbw {

/// Raises the soft limit on open files to `needed_count`, at most to the hard limit. Returns the resulting limit, which
/// may be below or above `needed_count`.
std::size_t raise_open_file_limit(std::size_t needed_count);

}  // namespace busbw
