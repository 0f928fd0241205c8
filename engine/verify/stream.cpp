#include "verify/stream.hpp"

#include "verify/random.hpp"

namespace busbw {

std::size_t Stream::start_of_block(std::uint64_t block) const {
  constexpr std::uint64_t kStarts = kTileElements - kBlockElements + 1;
  return static_cast<std::size_t>(below(mix(mix(seed) + block), kStarts));
}

const std::byte* Stream::at(std::uint64_t position) const {
  const std::size_t element = start_of_block(position / kBlockElements) + position % kBlockElements;
  return tile->data() + element * element_bytes;
}

}  // namespace busbw
