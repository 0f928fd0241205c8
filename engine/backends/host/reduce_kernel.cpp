// Reduces in blocks: `prepare` converts one rank's element, `combine` merges it into the accumulator, `finish` converts
// the accumulator to the result. All are templates over operator and element type, selected once per call.
#include "backends/host/reduce_kernel.hpp"

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "values/dispatch.hpp"
#include "verify/reduction_values.hpp"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace busbw {
namespace {

/// Elements reduced at a time: the accumulators fit into the L1 cache.
constexpr std::size_t kReduceBlockElements = 256;

/// Type in which sums and products of T accumulate. Integers accumulate as unsigned, because signed overflow is
/// undefined.
template <class T>
struct AccumulatorOf {
  using Type = float;
};
template <>
struct AccumulatorOf<double> {
  using Type = double;
};
template <std::integral T>
struct AccumulatorOf<T> {
  using Type = std::make_unsigned_t<T>;
};
template <class T>
using Accumulator = typename AccumulatorOf<T>::Type;

/// Calls `body(i)` for each element of a block. The constant bound of a full block lets compilers vectorize the loop
/// even at -O2.
template <class Body>
void for_each_element(std::size_t count, Body body) {
  if (count == kReduceBlockElements) {
    for (std::size_t i = 0; i < kReduceBlockElements; ++i) body(i);
  } else {
    for (std::size_t i = 0; i < count; ++i) body(i);
  }
}

/// Applies the operator to two accumulators.
template <Redop Op, class T>
Accumulator<T> combine(Accumulator<T> a, Accumulator<T> b) {
  if constexpr (Op == Redop::prod) {
    return static_cast<Accumulator<T>>(a * b);
  } else if constexpr (Op == Redop::max || Op == Redop::min) {
    // Signed integers must be compared as signed.
    using Compared = std::conditional_t<std::is_integral_v<T>, T, Accumulator<T>>;
    const auto compared_a = static_cast<Compared>(a);
    const auto compared_b = static_cast<Compared>(b);
    const bool takes_b = Op == Redop::max ? compared_a < compared_b : compared_b < compared_a;
    return takes_b ? b : a;
  } else {
    return static_cast<Accumulator<T>>(a + b);
  }
}

/// Converts one rank's element; `scalar` is that rank's factor of mulsum.
template <Redop Op, class T>
Accumulator<T> prepare(T value, Accumulator<T> scalar) {
  const auto accumulator = static_cast<Accumulator<T>>(value);
  if constexpr (Op == Redop::mulsum) return static_cast<Accumulator<T>>(accumulator * scalar);
  return accumulator;
}

/// Converts an accumulator to the result, and divides it by `ranks` for avg.
template <Redop Op, class T>
T finish(Accumulator<T> value, std::size_t ranks) {
  if constexpr (std::is_integral_v<T>) {
    // Divide as 64 bits, because the number of ranks may not fit into T.
    using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    const auto result = static_cast<T>(value);
    if constexpr (Op == Redop::avg) return static_cast<T>(static_cast<Wide>(result) / static_cast<Wide>(ranks));
    return result;
  } else {
    if constexpr (Op == Redop::avg) value /= static_cast<Accumulator<T>>(ranks);
    if constexpr (std::is_same_v<T, Accumulator<T>>) {
      return value;
    } else {
      return T::from_float(value);
    }
  }
}

/// Copies a block; `from` is aligned to 16 bytes. Streaming stores also need an aligned destination.
void store_block(std::byte* to, const std::byte* from, std::size_t bytes, WriteMode write_mode) {
#ifdef __SSE2__
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(to) % 16 == 0 && bytes % 16 == 0;
  if (write_mode == WriteMode::streamed && is_aligned) {
    for (std::size_t offset = 0; offset < bytes; offset += 16) {
      const __m128i value = _mm_load_si128(reinterpret_cast<const __m128i*>(from + offset));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + offset), value);
    }
    return;
  }
#else
  static_cast<void>(write_mode);
#endif
  std::memcpy(to, from, bytes);
}

/// Reduces `count` elements, at most one block, from element `first` on.
template <Redop Op, class T>
void reduce_block(std::span<const std::byte* const> sources, std::span<std::byte* const> destinations,
                  std::size_t first, std::size_t count, WriteMode write_mode) {
  alignas(64) Accumulator<T> accumulators[kReduceBlockElements];
  alignas(64) T results[kReduceBlockElements];
  for (std::size_t rank = 0; rank < sources.size(); ++rank) {
    const T* const from = reinterpret_cast<const T*>(sources[rank]) + first;
    const auto scalar =
        Op == Redop::mulsum ? static_cast<Accumulator<T>>(mulsum_scalar(static_cast<int>(rank))) : Accumulator<T>{};
    if (rank == 0) {
      for_each_element(count, [&](std::size_t i) { accumulators[i] = prepare<Op, T>(from[i], scalar); });
    } else {
      for_each_element(count, [&](std::size_t i) {
        accumulators[i] = combine<Op, T>(accumulators[i], prepare<Op, T>(from[i], scalar));
      });
    }
  }
  for_each_element(count, [&](std::size_t i) { results[i] = finish<Op, T>(accumulators[i], sources.size()); });
  for (std::byte* const to : destinations) {
    store_block(to + first * sizeof(T), reinterpret_cast<const std::byte*>(results), count * sizeof(T), write_mode);
  }
}

using BlockReducer = void (*)(std::span<const std::byte* const>, std::span<std::byte* const>, std::size_t, std::size_t,
                              WriteMode);

template <class T>
BlockReducer select_reducer(Redop redop) {
  switch (redop) {
    case Redop::sum: return reduce_block<Redop::sum, T>;
    case Redop::prod: return reduce_block<Redop::prod, T>;
    case Redop::max: return reduce_block<Redop::max, T>;
    case Redop::min: return reduce_block<Redop::min, T>;
    case Redop::avg: return reduce_block<Redop::avg, T>;
    case Redop::mulsum: return reduce_block<Redop::mulsum, T>;
  }
  throw std::logic_error("reduce_elements: not a Redop");
}

}  // namespace

void reduce_elements(std::span<const std::byte* const> sources, std::span<std::byte* const> destinations,
                     std::size_t first, std::size_t count, Dtype dtype, Redop redop, WriteMode write_mode) {
  const BlockReducer reduce = with_element_type(dtype, [&]<class T>() { return select_reducer<T>(redop); });
  for (std::size_t offset = 0; offset < count; offset += kReduceBlockElements) {
    reduce(sources, destinations, first + offset, std::min(kReduceBlockElements, count - offset), write_mode);
  }
#ifdef __SSE2__
  // Only a fence orders streaming stores before later stores; the release of a barrier does not.
  if (write_mode == WriteMode::streamed) _mm_sfence();
#endif
}

}  // namespace busbw
