#pragma once
// Element types and operators for the all-reduce kernels of -D. An element is loaded in its memory format and reduced
// in an accumulator type, which is wider for small floats. The result is rounded once, when it is stored.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "common/values/types.hpp"

namespace busbw {

/// An element type: its format in memory (`Stored`), the type of the reduction (`Accumulator`) and the conversions.
/// Integers are reduced in their own type, modulo 2^bits. `Unsigned` is the type to compute in, because it wraps.
template <class T, class Unsigned>
struct IntegerElement {
  using Stored = T;
  using Accumulator = T;
  static __device__ Accumulator to_accumulator(Stored value) { return value; }
  static __device__ Stored to_stored(Accumulator value) { return value; }
  static __device__ Accumulator sum(Accumulator a, Accumulator b) { return static_cast<T>(Unsigned(a) + Unsigned(b)); }
  static __device__ Accumulator prod(Accumulator a, Accumulator b) { return static_cast<T>(Unsigned(a) * Unsigned(b)); }
  static __device__ Accumulator max(Accumulator a, Accumulator b) { return a < b ? b : a; }
  static __device__ Accumulator min(Accumulator a, Accumulator b) { return b < a ? b : a; }
  static __device__ Accumulator average(Accumulator sum, int ranks) { return static_cast<T>(sum / ranks); }
};

/// Operators of an accumulator type F, float or double.
template <class F>
struct FloatArithmetic {
  using Accumulator = F;
  static __device__ Accumulator sum(Accumulator a, Accumulator b) { return a + b; }
  static __device__ Accumulator prod(Accumulator a, Accumulator b) { return a * b; }
  static __device__ Accumulator max(Accumulator a, Accumulator b) { return a < b ? b : a; }
  static __device__ Accumulator min(Accumulator a, Accumulator b) { return b < a ? b : a; }
  static __device__ Accumulator average(Accumulator sum, int ranks) { return sum / static_cast<F>(ranks); }
};

/// Float or double, reduced in its own type.
template <class F>
struct NativeFloatElement : FloatArithmetic<F> {
  using Stored = F;
  static __device__ F to_accumulator(F value) { return value; }
  static __device__ F to_stored(F value) { return value; }
};

/// Half, reduced in float.
struct HalfElement : FloatArithmetic<float> {
  using Stored = __half;
  static __device__ float to_accumulator(__half value) { return __half2float(value); }
  static __device__ __half to_stored(float value) { return __float2half_rn(value); }
};

/// Bfloat16, reduced in float.
struct Bfloat16Element : FloatArithmetic<float> {
  using Stored = __nv_bfloat16;
  static __device__ float to_accumulator(__nv_bfloat16 value) { return __bfloat162float(value); }
  static __device__ __nv_bfloat16 to_stored(float value) { return __float2bfloat16_rn(value); }
};

/// Fp8 is __nv_fp8_e4m3 or __nv_fp8_e5m2.
template <class Fp8>
struct Fp8Element : FloatArithmetic<float> {
  using Stored = Fp8;
  static __device__ float to_accumulator(Fp8 value) { return static_cast<float>(value); }
  static __device__ Fp8 to_stored(float value) { return Fp8(value); }
};

/// The sum, the most common operator, for which kernels are unrolled. `kValuesPerThread`: values that a thread reduces
/// at the same time. `kPeerUnroll`: iterations over peers that the compiler unrolls.
template <class E>
struct SumReduction {
  using Element = E;
  using Accumulator = typename E::Accumulator;
  // Accumulators of 8 bytes take two registers each. 16 elements of one byte already fill a 16-byte vector.
  static constexpr bool kHasFewValues = sizeof(Accumulator) == 8 || sizeof(typename E::Stored) == 1;
  static constexpr unsigned kValuesPerThread = kHasFewValues ? 16 : 32;
  static constexpr int kPeerUnroll = 4;
  __device__ Accumulator combine(Accumulator a, Accumulator b) const { return E::sum(a, b); }
  __device__ Accumulator finish(Accumulator value, int) const { return value; }
};

/// Any operator except mulsum, selected at run time. One kernel for all operators keeps the program small.
template <class E>
struct RuntimeReduction {
  using Element = E;
  using Accumulator = typename E::Accumulator;
  static constexpr unsigned kValuesPerThread = 1;
  static constexpr int kPeerUnroll = 1;
  Redop redop;
  __device__ Accumulator combine(Accumulator a, Accumulator b) const {
    switch (redop) {
      case Redop::prod: return E::prod(a, b);
      case Redop::max: return E::max(a, b);
      case Redop::min: return E::min(a, b);
      default: return E::sum(a, b);
    }
  }
  __device__ Accumulator finish(Accumulator value, int ranks) const {
    return redop == Redop::avg ? E::average(value, ranks) : value;
  }
};

/// Element type for sums: unsigned for integers, because sums modulo 2^bits need no sign. Signed and
/// unsigned integers of one size then share a kernel.
template <class E>
struct SumElement {
  using Element = E;
};
template <>
struct SumElement<IntegerElement<std::int8_t, std::uint32_t>> {
  using Element = IntegerElement<std::uint8_t, std::uint32_t>;
};
template <>
struct SumElement<IntegerElement<std::int32_t, std::uint32_t>> {
  using Element = IntegerElement<std::uint32_t, std::uint32_t>;
};
template <>
struct SumElement<IntegerElement<std::int64_t, std::uint64_t>> {
  using Element = IntegerElement<std::uint64_t, std::uint64_t>;
};

/// Calls launch(reduction) with a SumReduction or a RuntimeReduction. Returns false for mulsum, which has no kernel.
template <class Element, class Launch>
bool with_operator(Redop redop, const Launch& launch) {
  if (redop == Redop::mulsum) return false;
  if (redop == Redop::sum) {
    launch(SumReduction<typename SumElement<Element>::Element>{});
  } else {
    launch(RuntimeReduction<Element>{redop});
  }
  return true;
}

/// Calls launch(reduction) with the reduction of `dtype` elements by `redop`. Returns false for mulsum.
template <class Launch>
bool with_reduction(Dtype dtype, Redop redop, const Launch& launch) {
  switch (dtype) {
    case Dtype::int8: return with_operator<IntegerElement<std::int8_t, std::uint32_t>>(redop, launch);
    case Dtype::uint8: return with_operator<IntegerElement<std::uint8_t, std::uint32_t>>(redop, launch);
    case Dtype::int32: return with_operator<IntegerElement<std::int32_t, std::uint32_t>>(redop, launch);
    case Dtype::uint32: return with_operator<IntegerElement<std::uint32_t, std::uint32_t>>(redop, launch);
    case Dtype::int64: return with_operator<IntegerElement<std::int64_t, std::uint64_t>>(redop, launch);
    case Dtype::uint64: return with_operator<IntegerElement<std::uint64_t, std::uint64_t>>(redop, launch);
    case Dtype::float16: return with_operator<HalfElement>(redop, launch);
    case Dtype::float32: return with_operator<NativeFloatElement<float>>(redop, launch);
    case Dtype::float64: return with_operator<NativeFloatElement<double>>(redop, launch);
    case Dtype::bfloat16: return with_operator<Bfloat16Element>(redop, launch);
    case Dtype::f8e4m3: return with_operator<Fp8Element<__nv_fp8_e4m3>>(redop, launch);
    case Dtype::f8e5m2: return with_operator<Fp8Element<__nv_fp8_e5m2>>(redop, launch);
  }
  return false;
}

}  // namespace busbw
