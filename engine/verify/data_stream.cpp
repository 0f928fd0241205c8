// Position of a stream's element in its tile.
#include "verify/data_stream.hpp"

namespace busbw {

const std::byte* DataStream::at(std::uint64_t position) const {
  const std::size_t element = block_start(seed, position / kBlockElements) + position % kBlockElements;
  return tile->data() + element * element_bytes;
}

}  // namespace busbw
