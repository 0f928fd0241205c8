#include "backends/mpi/mpi_reduction.hpp"

#include <cstddef>
#include <stdexcept>

#include "backends/host/reduce_kernel.hpp"

namespace busbw {
namespace {

/// Whether MPI has no number like this one.
constexpr bool is_own(Dtype dtype) {
  return dtype == Dtype::float16 || dtype == Dtype::bfloat16 || dtype == Dtype::f8e4m3 || dtype == Dtype::f8e5m2;
}

/// The operator that combines two elements.
constexpr Redop combining(Redop redop) { return redop == Redop::avg || redop == Redop::mulsum ? Redop::sum : redop; }

/// MPI_User_function knows of its operator only what is in its name, hence one for each.
template <Dtype dtype, Redop redop>
void reduce_pair(void* in, void* in_and_out, int* count, MPI_Datatype*) {
  const std::array<const std::byte*, 2> sources{static_cast<const std::byte*>(in),
                                                static_cast<const std::byte*>(in_and_out)};
  const std::array<std::byte*, 1> destination{static_cast<std::byte*>(in_and_out)};
  reduce_elements(sources, destination, 0, static_cast<std::size_t>(*count), dtype, redop, Store::cached);
}

template <Dtype dtype>
constexpr std::array<MPI_User_function*, 4> kFunctions{reduce_pair<dtype, Redop::sum>, reduce_pair<dtype, Redop::prod>,
                                                       reduce_pair<dtype, Redop::max>, reduce_pair<dtype, Redop::min>};

const std::array<MPI_User_function*, 4>& functions(Dtype dtype) {
  switch (dtype) {
    case Dtype::float16: return kFunctions<Dtype::float16>;
    case Dtype::bfloat16: return kFunctions<Dtype::bfloat16>;
    case Dtype::f8e4m3: return kFunctions<Dtype::f8e4m3>;
    case Dtype::f8e5m2: return kFunctions<Dtype::f8e5m2>;
    default: throw std::logic_error("MpiOperators: MPI has operators of its own for this type");
  }
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
  constexpr int kCommutes = 1;
  for (const Dtype dtype : kDtypes) {
    if (!is_own(dtype)) continue;
    for (std::size_t i = 0; i < kOwnOperators; ++i)
      require_mpi(MPI_Op_create(functions(dtype)[i], kCommutes, &own_[static_cast<std::size_t>(dtype)][i]),
                  "MPI_Op_create");
  }
}

MPI_Op MpiOperators::of(Dtype dtype, Redop redop) const {
  static_assert(static_cast<int>(Redop::min) == kOwnOperators - 1, "the first operators are those that combine");
  const Redop combine = combining(redop);
  if (is_own(dtype)) return own_[static_cast<std::size_t>(dtype)][static_cast<std::size_t>(combine)];
  switch (combine) {
    case Redop::prod: return MPI_PROD;
    case Redop::max: return MPI_MAX;
    case Redop::min: return MPI_MIN;
    default: return MPI_SUM;
  }
}

}  // namespace busbw
