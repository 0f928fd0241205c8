#pragma once
// An independent reduction to compare with the host backend's: element by element, in rank order, in double or 64-bit
// integers.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "common/values/types.hpp"
#include "values/dispatch.hpp"
#include "verify/reduction_values.hpp"

namespace busbw {

/// A well-mixed number for each (a, b).
inline std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = (a + 1) * 0x9e3779b97f4a7c15u + b * 0xbf58476d1ce4e5b9u;
  x ^= x >> 31;
  x *= 0x94d049bb133111ebu;
  return x ^ (x >> 29);
}

/// Input of `rank` at element `i`. Integers use all bits, so that they wrap. Floats are so small that a double holds
/// every intermediate result exactly.
template <class T>
T contribution(Redop redop, int rank, std::size_t i) {
  const std::uint64_t bits = mixed(static_cast<std::uint64_t>(rank), i);
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(bits);
  } else {
    const double value = redop == Redop::prod ? (bits % 2 == 0 ? 1.0 : 2.0) : static_cast<double>(bits % 17) / 4 - 2;
    return round_to<T>(value);
  }
}

/// Result of the reduction over `ranks` ranks at element `i`.
template <class T>
T reduced(Redop redop, int ranks, std::size_t i) {
  using Wide = std::conditional_t<!std::is_integral_v<T>, double,
                                  std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>;
  using Wrapping = std::conditional_t<std::is_integral_v<T>, std::uint64_t, double>;
  Wide result{};
  for (int rank = 0; rank < ranks; ++rank) {
    auto value = static_cast<Wrapping>(0);
    if constexpr (std::is_integral_v<T>) {
      value = static_cast<std::uint64_t>(contribution<T>(redop, rank, i));
    } else {
      value = to_double(contribution<T>(redop, rank, i));
    }
    if (redop == Redop::mulsum) value *= rank % 2 == 0 ? 1 : 2;
    if (rank == 0) {
      result = static_cast<Wide>(value);
    } else if (redop == Redop::prod) {
      result = static_cast<Wide>(static_cast<Wrapping>(result) * value);
    } else if (redop == Redop::max) {
      result = static_cast<Wide>(value) > result ? static_cast<Wide>(value) : result;
    } else if (redop == Redop::min) {
      result = static_cast<Wide>(value) < result ? static_cast<Wide>(value) : result;
    } else {
      result = static_cast<Wide>(static_cast<Wrapping>(result) + value);
    }
  }
  if constexpr (std::is_integral_v<T>) {
    const auto wrapped = static_cast<T>(result);
    return redop == Redop::avg ? static_cast<T>(static_cast<Wide>(wrapped) / static_cast<Wide>(ranks)) : wrapped;
  } else {
    return round_to<T>(redop == Redop::avg ? result / ranks : result);
  }
}

/// Elements `first` to `first + count` of `value(i)`, as bytes.
template <class T, class Value>
std::vector<std::byte> bytes_of(std::size_t first, std::size_t count, Value value) {
  std::vector<std::byte> bytes(count * sizeof(T));
  for (std::size_t i = 0; i < count; ++i) {
    const T element = value(first + i);
    std::memcpy(bytes.data() + i * sizeof(T), &element, sizeof(T));
  }
  return bytes;
}

inline std::vector<std::byte> contributions(Dtype dtype, Redop redop, int rank, std::size_t first, std::size_t count) {
  return with_element_type(dtype, [&]<class T>() {
    return bytes_of<T>(first, count, [&](std::size_t i) { return contribution<T>(redop, rank, i); });
  });
}

inline std::vector<std::byte> reductions(Dtype dtype, Redop redop, int ranks, std::size_t first, std::size_t count) {
  return with_element_type(dtype, [&]<class T>() {
    return bytes_of<T>(first, count, [&](std::size_t i) { return reduced<T>(redop, ranks, i); });
  });
}

/// Bytes for collectives that only move data: those of rank `rank`, from byte `first` on.
inline std::vector<std::byte> moved(int rank, std::size_t first, std::size_t count) {
  return bytes_of<std::byte>(first, count, [&](std::size_t i) {
    return static_cast<std::byte>(mixed(static_cast<std::uint64_t>(rank) + 1000, i));
  });
}

}  // namespace busbw
