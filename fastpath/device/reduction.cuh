#pragma once
// Reduction of cells on the GPU, in rank order. All arithmetic is in float, and the result is converted to the element
// type once. So ranks that reduce the same cells get the same bits.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "fastpath/choice/operation.hpp"
#include "fastpath/schedule/schedule.hpp"

namespace busbw::fastpath {

// Element types. A word is 8 bytes, half of a cell. widen() returns element `i` of a word as float. round() converts a
// float and returns a word with only element `i`.

/// Float: 2 elements per word.
struct Float32 {
  static constexpr int kElementsPerWord = 2;
  static __device__ __forceinline__ float widen(std::uint64_t word, int i) {
    return __uint_as_float(static_cast<std::uint32_t>(word >> (32 * i)));
  }
  static __device__ __forceinline__ std::uint64_t round(float value, int i) {
    return static_cast<std::uint64_t>(__float_as_uint(value)) << (32 * i);
  }
};

/// Half: 4 elements per word.
struct Float16 {
  static constexpr int kElementsPerWord = 4;
  static __device__ __forceinline__ float widen(std::uint64_t word, int i) {
    return __half2float(__ushort_as_half(static_cast<std::uint16_t>(word >> (16 * i))));
  }
  static __device__ __forceinline__ std::uint64_t round(float value, int i) {
    return static_cast<std::uint64_t>(__half_as_ushort(__float2half_rn(value))) << (16 * i);
  }
};

/// Bfloat16: 4 elements per word.
struct Bfloat16 {
  static constexpr int kElementsPerWord = 4;
  static __device__ __forceinline__ float widen(std::uint64_t word, int i) {
    return __bfloat162float(__ushort_as_bfloat16(static_cast<std::uint16_t>(word >> (16 * i))));
  }
  static __device__ __forceinline__ std::uint64_t round(float value, int i) {
    return static_cast<std::uint64_t>(__bfloat16_as_ushort(__float2bfloat16_rn(value))) << (16 * i);
  }
};

/// The Reduction of work.hpp for one element type and any operator. The arithmetic is in float for every element type.
template <class Type>
struct ReductionInFloat {
  Redop redop;
  float factor;  ///< factor for the result: 1 / ranks for an average, otherwise 1

  template <int kMax>
  __device__ __forceinline__ Cell of(const Cell (&cells)[kMax], int ranks) const {
    Cell result;
    switch (redop) {
      case Redop::sum:
      case Redop::avg: result = combine_all(cells, ranks, [](float a, float b) { return a + b; }); break;
      case Redop::prod: result = combine_all(cells, ranks, [](float a, float b) { return a * b; }); break;
      case Redop::min: result = combine_all(cells, ranks, [](float a, float b) { return fminf(a, b); }); break;
      case Redop::max: result = combine_all(cells, ranks, [](float a, float b) { return fmaxf(a, b); }); break;
    }
    return result;
  }

 private:
  template <int kMax, class Combine>
  __device__ __forceinline__ Cell combine_all(const Cell (&cells)[kMax], int ranks, Combine combine) const {
    float low[Type::kElementsPerWord];
    float high[Type::kElementsPerWord];
#pragma unroll
    for (int i = 0; i < Type::kElementsPerWord; ++i) {
      low[i] = Type::widen(cells[0].low, i);
      high[i] = Type::widen(cells[0].high, i);
    }
#pragma unroll
    for (int source = 1; source < kMax; ++source) {
      if (source >= ranks) break;
#pragma unroll
      for (int i = 0; i < Type::kElementsPerWord; ++i) {
        low[i] = combine(low[i], Type::widen(cells[source].low, i));
        high[i] = combine(high[i], Type::widen(cells[source].high, i));
      }
    }
    Cell result{};  // zero, because each round() sets the bits of one element
#pragma unroll
    for (int i = 0; i < Type::kElementsPerWord; ++i) {
      result.low |= Type::round(low[i] * factor, i);
      result.high |= Type::round(high[i] * factor, i);
    }
    return result;
  }
};

}  // namespace busbw::fastpath
