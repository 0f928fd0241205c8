// Makes the tiles of a reduction's inputs and results, and the streams over them. A tile is a table of element values.
// A stream is a sequence of blocks of a tile; its seed selects the place in the tile where each block begins.
#include "verify/reduction_values.hpp"

#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "common/support/error.hpp"
#include "values/dispatch.hpp"
#include "verify/float_reduction.hpp"
#include "verify/integer_reduction.hpp"
#include "verify/random.hpp"

namespace busbw {
namespace {

/// Makes a tile of the elements value(0) .. value(kTileElements - 1).
template <class Value>
Tile make_tile(const Value& value) {
  using T = decltype(value(std::size_t{0}));
  auto bytes = std::make_shared<std::vector<std::byte>>(kTileElements * sizeof(T));
  for (std::size_t position = 0; position < kTileElements; ++position) {
    const T element = value(position);
    std::memcpy(bytes->data() + position * sizeof(T), &element, sizeof(T));
  }
  return bytes;
}

/// Tile of finite numbers, made once and never changed.
template <class T>
const Tile& finite_tile() {
  static const Tile tile = make_tile([](std::size_t position) { return finite_value<T>(random_bits(position, 0)); });
  return tile;
}

/// Calls use(reduction) with the FloatReduction or IntegerReduction, which computes single elements.
template <class Use>
auto with_reduction(Dtype dtype, Redop redop, int ranks, const Use& use) {
  return with_element_type(dtype, [&]<class T>() {
    using Reduction = std::conditional_t<kIsFloat<T>, FloatReduction<T>, IntegerReduction<T>>;
    return use(Reduction(redop, ranks));
  });
}

}  // namespace

double mulsum_scalar(int rank) { return rank % 2 == 0 ? 1 : 2; }

ReductionValues::ReductionValues(Dtype dtype, Redop redop, int ranks) : dtype_(dtype), redop_(redop), ranks_(ranks) {
  if (ranks < 1 || ranks > kMaxReducingRanks) {
    throw UsageError(fmt::format("results can be checked for 1 to {} ranks, not {}", kMaxReducingRanks, ranks));
  }
  exactness_ = with_reduction(dtype, redop, ranks, [](const auto& reduction) { return reduction.exactness(); });
}

DataStream ReductionValues::contribution(int rank, std::uint64_t seed) const {
  Tile& tile = contributions_[rank];
  if (!tile) {
    tile = with_reduction(dtype_, redop_, ranks_, [&](const auto& reduction) {
      return make_tile([&](std::size_t position) { return reduction.contribution(rank, position); });
    });
  }
  return {tile, size_bytes(dtype_), seed};
}

DataStream ReductionValues::reduced(std::uint64_t seed) const {
  if (!reduced_) {
    reduced_ = with_reduction(dtype_, redop_, ranks_, [&](const auto& reduction) {
      return make_tile([&](std::size_t position) { return reduction.reduced(position); });
    });
  }
  return {reduced_, size_bytes(dtype_), seed};
}

DataStream moved_stream(Dtype dtype, int source_rank, std::uint64_t seed) {
  // The lambda returns a pointer, because GCC 13 takes a returned reference for one to a temporary.
  const Tile& tile = *with_element_type(dtype, []<class T>() { return &finite_tile<T>(); });
  // All ranks share the tile, so each source rank needs a seed of its own.
  const std::uint64_t rank_seed = mix_bits(seed) + static_cast<std::uint64_t>(source_rank);
  return {tile, size_bytes(dtype), rank_seed};
}

DataStream guard_stream(std::uint64_t seed) {
  const std::uint64_t guard_seed = mix_bits(~seed);  // differs from the seeds of data with this `seed`
  return {finite_tile<std::uint8_t>(), 1, guard_seed};
}

std::string element_text(Dtype dtype, const std::byte* element) {
  return with_element_type(dtype, [&]<class T>() {
    T value;
    std::memcpy(&value, element, sizeof(T));
    const auto bits = std::bit_cast<typename BitsOf<T>::type>(value);
    const auto hex = fmt::format("0x{:0{}x}", bits, 2 * sizeof(T));
    if constexpr (std::is_arithmetic_v<T>) {
      return fmt::format("{} ({})", value, hex);
    } else {
      return fmt::format("{} ({})", static_cast<float>(value), hex);
    }
  });
}

}  // namespace busbw
