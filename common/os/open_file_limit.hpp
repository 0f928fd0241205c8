#pragma once
#include <cstddef>

namespace busbw {

/// Makes room for `needed` open files as far as the system permits: usual limits are low, and may be raised to the hard
/// one. How many are allowed then, which may be more or fewer.
std::size_t raise_open_file_limit(std::size_t needed);

}  // namespace busbw
