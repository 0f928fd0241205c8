#pragma once
// Maps element types and operators to MPI's. MPI has no 16-bit and 8-bit floating-point numbers and does not define
// integer overflow: in some libraries, sums of 8-bit integers saturate. The host backend's arithmetic replaces
// operators that MPI lacks or defines differently.
#include <array>
#include <string>

#include "backends/mpi/mpi_calls.hpp"
#include "common/values/types.hpp"

namespace busbw {

/// The type that moves elements of `dtype`.
MPI_Datatype mpi_type(Dtype dtype);

/// The operators of a job. Create them after MPI_Init and use them in one thread.
class MpiOperators {
 public:
  MpiOperators();

  /// Operator that combines two elements. `avg` and `mulsum` are sums; the caller scales before or divides after.
  MPI_Op of(Dtype dtype, Redop redop) const;
  /// MPI operators that are replaced because they do not wrap on overflow: "int8 sum, uint8 sum".
  const std::string& replaced() const { return replaced_; }

 private:
  static constexpr std::size_t kCombining = 4;  // sum, prod, max, min
  std::array<std::array<MPI_Op, kCombining>, kDtypes.size()> operators_{};
  std::string replaced_;
};

}  // namespace busbw
