#pragma once
// Element types and operators for kernels: elements are loaded from their format, reduced in a wider type and rounded
// once.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "common/values/types.hpp"

namespace busbw {

/// An element type: its format in memory (`Stored`), the type of the reduction (`Accumulator`) and the conversions.
/// Integers are reduced in their own type, modulo 2^bits.
template <class T, class Unsigned>
struct IntegerElement {
  using Stored = T;
  using Accumulator = T;
  static __device__ Accumulator widen(Stored value) { return value; }
  static __device__ Stored round(Accumulator value) { return value; }
  static __device__ Accumulator sum(Accumulator a, Accumulator b) { return static_cast<T>(Unsigned(a) + Unsigned(b)); }
  static __device__ Accumulator prod(Accumulator a, Accumulator b) { return static_cast<T>(Unsigned(a) * Unsigned(b)); }
  static __device__ Accumulator larger(Accumulator a, Accumulator b) { return a < b ? b : a; }
  static __device__ Accumulator smaller(Accumulator a, Accumulator b) { return b < a ? b : a; }
  static __device__ Accumulator average(Accumulator sum, int ranks) { return static_cast<T>(sum / ranks); }
};

template <class F>
struct FloatArithmetic {
  using Accumulator = F;
  static __device__ Accumulator sum(Accumulator a, Accumulator b) { return a + b; }
  static __device__ Accumulator prod(Accumulator a, Accumulator b) { return a * b; }
  static __device__ Accumulator larger(Accumulator a, Accumulator b) { return a < b ? b : a; }
  static __device__ Accumulator smaller(Accumulator a, Accumulator b) { return b < a ? b : a; }
  static __device__ Accumulator average(Accumulator sum, int ranks) { return sum / static_cast<F>(ranks); }
};

template <class F>
struct NativeFloatElement : FloatArithmetic<F> {
  using Stored = F;
  static __device__ F widen(F value) { return value; }
  static __device__ F round(F value) { return value; }
};

struct HalfElement : FloatArithmetic<float> {
  using Stored = __half;
  static __device__ float widen(__half value) { return __half2float(value); }
  static __device__ __half round(float value) { return __float2half_rn(value); }
};

struct Bfloat16Element : FloatArithmetic<float> {
  using Stored = __nv_bfloat16;
  static __device__ float widen(__nv_bfloat16 value) { return __bfloat162float(value); }
  static __device__ __nv_bfloat16 round(float value) { return __float2bfloat16_rn(value); }
};

/// Fp8 is __nv_fp8_e4m3 or __nv_fp8_e5m2.
template <class Fp8>
struct Fp8Element : FloatArithmetic<float> {
  using Stored = Fp8;
  static __device__ float widen(Fp8 value) { return static_cast<float>(value); }
  static __device__ Fp8 round(float value) { return Fp8(value); }
};

/// The sum, the most common operator, for which kernels are unrolled. `kAtOnce`: values that a thread holds.
template <class E>
struct SumReduction {
  using Element = E;
  using Accumulator = typename E::Accumulator;
  static constexpr unsigned kAtOnce = sizeof(Accumulator) == 8 || sizeof(typename E::Stored) == 1 ? 16 : 32;
  static constexpr int kPeersAtOnce = 4;
  __device__ Accumulator combine(Accumulator a, Accumulator b) const { return E::sum(a, b); }
  __device__ Accumulator finish(Accumulator value, int) const { return value; }
};

/// Any operator, selected at run time. One small kernel for all of them keeps the program small.
template <class E>
struct RuntimeReduction {
  using Element = E;
  using Accumulator = typename E::Accumulator;
  static constexpr unsigned kAtOnce = 1;
  static constexpr int kPeersAtOnce = 1;
  Redop redop;
  __device__ Accumulator combine(Accumulator a, Accumulator b) const {
    switch (redop) {
      case Redop::prod: return E::prod(a, b);
      case Redop::max: return E::larger(a, b);
      case Redop::min: return E::smaller(a, b);
      default: return E::sum(a, b);
    }
  }
  __device__ Accumulator finish(Accumulator value, int ranks) const {
    return redop == Redop::avg ? E::average(value, ranks) : value;
  }
};

/// Element type for sums: unsigned for integers, because sums modulo 2^bits need no sign.
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

/// Calls f(reduction) with a SumReduction or a RuntimeReduction. Returns false for mulsum.
template <class Element, class F>
bool with_operator(Redop redop, const F& f) {
  if (redop == Redop::mulsum) return false;
  if (redop == Redop::sum) {
    f(SumReduction<typename SumElement<Element>::Element>{});
  } else {
    f(RuntimeReduction<Element>{redop});
  }
  return true;
}

/// Calls f(reduction) for the elements of `dtype`. Returns false for mulsum.
template <class F>
bool with_reduction(Dtype dtype, Redop redop, const F& f) {
  switch (dtype) {
    case Dtype::int8: return with_operator<IntegerElement<std::int8_t, std::uint32_t>>(redop, f);
    case Dtype::uint8: return with_operator<IntegerElement<std::uint8_t, std::uint32_t>>(redop, f);
    case Dtype::int32: return with_operator<IntegerElement<std::int32_t, std::uint32_t>>(redop, f);
    case Dtype::uint32: return with_operator<IntegerElement<std::uint32_t, std::uint32_t>>(redop, f);
    case Dtype::int64: return with_operator<IntegerElement<std::int64_t, std::uint64_t>>(redop, f);
    case Dtype::uint64: return with_operator<IntegerElement<std::uint64_t, std::uint64_t>>(redop, f);
    case Dtype::float16: return with_operator<HalfElement>(redop, f);
    case Dtype::float32: return with_operator<NativeFloatElement<float>>(redop, f);
    case Dtype::float64: return with_operator<NativeFloatElement<double>>(redop, f);
    case Dtype::bfloat16: return with_operator<Bfloat16Element>(redop, f);
    case Dtype::f8e4m3: return with_operator<Fp8Element<__nv_fp8_e4m3>>(redop, f);
    case Dtype::f8e5m2: return with_operator<Fp8Element<__nv_fp8_e5m2>>(redop, f);
  }
  return false;
}

}  // namespace busbw
