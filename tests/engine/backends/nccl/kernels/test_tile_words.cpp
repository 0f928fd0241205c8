// Runs the GPU kernels' fill and compare thread by thread on the host, and compares with the host's data.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "verify/host_data.hpp"
#include "verify/reduction_values.hpp"

namespace busbw {

// Replacements for CUDA's types and functions.
#define __device__
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned bits) {
  return static_cast<unsigned>((std::uint64_t{high} << 32 | low) >> bits);
}

}  // namespace busbw

#include "backends/nccl/kernels/tile_words.cuh"

using namespace busbw;

namespace {

constexpr std::size_t kRoom = 512;  // around the data, a multiple of what a warp writes at once
constexpr unsigned char kGuard = 0x5a;

/// Memory with the alignment of GPU memory.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : bytes_(bytes), all_(bytes / sizeof(Line) + 1) {
    std::fill_n(data(), all_.size() * sizeof(Line), kGuard);
  }
  unsigned char* data() { return all_[0].bytes; }
  bool operator==(const Memory& other) const { return std::memcmp(all_[0].bytes, other.all_[0].bytes, bytes_) == 0; }

 private:
  struct alignas(kRoom) Line {
    unsigned char bytes[kRoom];
  };
  std::size_t bytes_;
  std::vector<Line> all_;
};

/// A data stream with a copy of its tile, as on the device.
struct TiledStream {
  explicit TiledStream(Dtype dtype) : data(moved_stream(dtype, 1, 5)), tile(data.tile->size() + kTilePaddingBytes) {
    std::memcpy(tile.data(), data.tile->data(), data.tile->size());
  }
  DeviceRange range(unsigned char* memory, std::uint64_t first, std::size_t elements) {
    return {memory, tile.data(), data.seed, first, elements, static_cast<unsigned>(data.element_bytes)};
  }

  DataStream data;
  Memory tile;
};

constexpr Dtype kDtypesOfAllSizes[] = {Dtype::int8, Dtype::float16, Dtype::float32, Dtype::float64};

/// Random numbers from 0 to `bound` - 1.
class RandomBelow {
 public:
  explicit RandomBelow(unsigned seed) : random_(seed) {}
  std::size_t operator()(std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_);
  }

 private:
  std::mt19937 random_;
};

void fill(const DeviceRange& range, std::size_t threads) {
  for (std::size_t thread = 0; thread < threads; ++thread) fill_range(range, thread, threads);
}

unsigned compare(const DeviceRange& range, std::size_t threads) {
  unsigned found = 0;
  for (std::size_t thread = 0; thread < threads; ++thread) found += count_differing(range, thread, threads);
  return found;
}

}  // namespace

TEST_CASE("visit_range: writes exactly the host's bytes and compares every byte") {
  RandomBelow below(11);
  for (const Dtype dtype : kDtypesOfAllSizes) {
    TiledStream stream(dtype);
    for (int trial = 0; trial < 300; ++trial) {
      const std::size_t elements = below(trial % 3 ? 40 : 9000);
      const std::size_t past = below(kRoom), threads = kLanes << below(4);
      const std::uint64_t first = trial % 7 ? below(10000) : (std::uint64_t{1} << 40) + below(4096);
      const std::size_t bytes = elements * stream.data.element_bytes;
      INFO("elements ", elements, " of ", stream.data.element_bytes, " bytes from ", first, " on, ", past,
           " bytes past a line, ", threads, " threads");
      Memory by_threads(past + bytes + kRoom), by_host(past + bytes + kRoom);
      const DeviceRange range = stream.range(by_threads.data() + past, first, elements);
      fill_host(reinterpret_cast<std::byte*>(by_host.data() + past), stream.data, first, elements);
      if (elements > 0) fill(range, threads);
      REQUIRE(by_threads == by_host);
      if (elements == 0) continue;
      CHECK(compare(range, threads) == 0);
      range.memory[below(bytes)] ^= 1;
      CHECK(compare(range, threads) == 1);
    }
  }
}

TEST_CASE("count_differing: is at most the number of wrong elements") {
  RandomBelow below(12);
  for (const Dtype dtype : kDtypesOfAllSizes) {
    TiledStream stream(dtype);
    for (int trial = 0; trial < 300; ++trial) {
      const std::size_t element_bytes = stream.data.element_bytes, elements = 1 + below(40);
      const std::size_t wrong_elements = 1 + below(elements), first_wrong = below(elements - wrong_elements + 1);
      const std::size_t past = below(kRoom / element_bytes) * element_bytes;  // as -u moves buffers
      INFO(wrong_elements, " wrong elements of ", elements, " with ", element_bytes, " bytes, ", past,
           " bytes past a line");
      Memory memory(past + elements * element_bytes + kRoom);
      const DeviceRange range = stream.range(memory.data() + past, 0, elements);
      fill(range, kLanes);
      for (std::size_t byte = 0; byte < wrong_elements * element_bytes; ++byte)
        range.memory[first_wrong * element_bytes + byte] ^= 0xff;
      const unsigned differing = compare(range, kLanes);
      CHECK(differing >= 1);
      CHECK(differing <= wrong_elements);
    }
  }
}
