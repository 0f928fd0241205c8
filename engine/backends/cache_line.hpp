#pragma once
// Size of the processor's cache lines.
#include <cstddef>

namespace busbw {

constexpr std::size_t kCacheLineBytes = 64;

}  // namespace busbw
