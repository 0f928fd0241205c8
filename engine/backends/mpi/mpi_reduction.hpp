#pragma once
// Types and operators as MPI knows them. It has no 16-bit and 8-bit floating-point numbers: those are reduced by the host
// backend's arithmetic.
#include <array>

#include "backends/mpi/mpi_calls.hpp"
#include "support/types.hpp"

namespace busbw {

/// The type that moves elements of `dtype`, and for those that MPI knows the type that it reduces.
MPI_Datatype mpi_type(Dtype dtype);

/// The operators of a job; to be made after MPI_Init and used by one thread.
class MpiOperators {
 public:
  MpiOperators();

  /// Combines two elements. `avg` and `mulsum` are sums: what comes before and after is not MPI's.
  MPI_Op of(Dtype dtype, Redop redop) const;

 private:
  static constexpr std::size_t kOwnOperators = 4;
  std::array<std::array<MPI_Op, kOwnOperators>, kDtypes.size()> own_{};
};

}  // namespace busbw
