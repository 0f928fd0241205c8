#pragma once
// Types and operators as MPI knows them. It has no 16-bit and 8-bit floating-point numbers, and does not say what
// becomes of integers that overflow: some libraries' sums of 8-bit integers stop at the largest number. What MPI does
// not have, or does in another way, is reduced by the host backend's arithmetic.
#include <array>
#include <string>

#include "backends/mpi/mpi_calls.hpp"
#include "common/values/types.hpp"

namespace busbw {

/// The type that moves elements of `dtype`.
MPI_Datatype mpi_type(Dtype dtype);

/// The operators of a job; to be made after MPI_Init and used by one thread.
class MpiOperators {
 public:
  MpiOperators();

  /// Combines two elements. `avg` and `mulsum` are sums: what comes before and after is not MPI's.
  MPI_Op of(Dtype dtype, Redop redop) const;
  /// "int8 sum, uint8 sum": which of MPI's operators are replaced because they do not wrap around.
  const std::string& replaced() const { return replaced_; }

 private:
  static constexpr std::size_t kCombining = 4;  // sum, prod, max, min
  std::array<std::array<MPI_Op, kCombining>, kDtypes.size()> operators_{};
  std::string replaced_;
};

}  // namespace busbw
