#include "backends/mpi/mpi_reduction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "backends/host/reduce_kernel.hpp"

namespace busbw {
namespace {

/// True if MPI has no such number type, so that the elements need own operators.
constexpr bool is_own(Dtype dtype) {
  return dtype == Dtype::float16 || dtype == Dtype::bfloat16 || dtype == Dtype::f8e4m3 || dtype == Dtype::f8e5m2;
}

/// Operator that combines two elements: `avg` and `mulsum` combine by sum.
constexpr Redop combining(Redop redop) { return redop == Redop::avg || redop == Redop::mulsum ? Redop::sum : redop; }

MPI_Op mpi_operator(Redop redop) {
  switch (redop) {
    case Redop::prod: return MPI_PROD;
    case Redop::max: return MPI_MAX;
    case Redop::min: return MPI_MIN;
    default: return MPI_SUM;
  }
}

/// MPI_User_function gets no operator argument, so each operator needs its own function.
template <Dtype dtype, Redop redop>
void reduce_pair(void* in, void* in_and_out, int* count, MPI_Datatype*) {
  const std::array<const std::byte*, 2> sources{static_cast<const std::byte*>(in),
                                                static_cast<const std::byte*>(in_and_out)};
  const std::array<std::byte*, 1> destination{static_cast<std::byte*>(in_and_out)};
  reduce_elements(sources, destination, 0, static_cast<std::size_t>(*count), dtype, redop, WriteMode::cached);
}

using Functions = std::array<std::array<MPI_User_function*, 4>, kDtypes.size()>;

template <std::size_t... dtypes>
constexpr Functions functions_of(std::index_sequence<dtypes...>) {
  return {{{reduce_pair<kDtypes[dtypes], Redop::sum>, reduce_pair<kDtypes[dtypes], Redop::prod>,
            reduce_pair<kDtypes[dtypes], Redop::max>, reduce_pair<kDtypes[dtypes], Redop::min>}...}};
}

constexpr Functions kFunctions = functions_of(std::make_index_sequence<kDtypes.size()>());

/// True if MPI's operator wraps on overflow, like NCCL's integers and ours. Tested with numbers of all bits.
bool wraps_around(Dtype dtype, Redop redop, MPI_User_function* right) {
  constexpr int kElements = 257;  // long enough for vector instructions, with a remainder
  std::array<std::uint8_t, kElements * sizeof(std::uint64_t)> left;
  for (std::size_t i = 0; i < left.size(); ++i) left[i] = static_cast<std::uint8_t>(i * 167 + 13);
  auto of_mpi = left;
  std::ranges::reverse(of_mpi);
  auto of_ours = of_mpi;
  require_mpi(MPI_Reduce_local(left.data(), of_mpi.data(), kElements, mpi_type(dtype), mpi_operator(redop)),
              "MPI_Reduce_local");
  int elements = kElements;
  right(left.data(), of_ours.data(), &elements, nullptr);
  return of_mpi == of_ours;
}

}  // namespace

MPI_Datatype mpi_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::int8: return MPI_INT8_T;
    case Dtype::uint8: return MPI_UINT8_T;
    case Dtype::int32: return MPI_INT32_T;
    case Dtype::uint32: return MPI_UINT32_T;
    case Dtype::int64: return MPI_INT64_T;
    case Dtype::uint64: return MPI_UINT64_T;
    case Dtype::float32: return MPI_FLOAT;
    case Dtype::float64: return MPI_DOUBLE;
    case Dtype::float16:
    case Dtype::bfloat16: return MPI_UINT16_T;
    case Dtype::f8e4m3:
    case Dtype::f8e5m2: return MPI_UINT8_T;
  }
  throw std::logic_error("mpi_type: not a Dtype");
}

MpiOperators::MpiOperators() {
  static_assert(static_cast<int>(Redop::min) == kCombining - 1, "the first operators are those that combine");
  constexpr int kCommutes = 1;
  for (const Dtype dtype : kDtypes) {
    for (std::size_t i = 0; i < kCombining; ++i) {
      const auto redop = static_cast<Redop>(i);
      MPI_User_function* const function = kFunctions[static_cast<std::size_t>(dtype)][i];
      MPI_Op& chosen = operators_[static_cast<std::size_t>(dtype)][i];
      chosen = mpi_operator(redop);
      const bool is_replaced = !is_float(dtype) && !wraps_around(dtype, redop, function);
      if (is_replaced) replaced_ += fmt::format("{}{} {}", replaced_.empty() ? "" : ", ", name(dtype), name(redop));
      if (is_own(dtype) || is_replaced) require_mpi(MPI_Op_create(function, kCommutes, &chosen), "MPI_Op_create");
    }
  }
}

MPI_Op MpiOperators::of(Dtype dtype, Redop redop) const {
  return operators_[static_cast<std::size_t>(dtype)][static_cast<std::size_t>(combining(redop))];
}

}  // namespace busbw
