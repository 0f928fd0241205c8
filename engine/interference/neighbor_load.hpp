#pragma once
// Load that runs next to the measured operation (--with): a collective, or work of each rank alone.
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "collectives/collective.hpp"

namespace busbw {

/// Operation of a neighbor, repeated until the measurement ends.
struct NeighborLoad {
  std::shared_ptr<const Collective> collective = {};  // if `is_local`, an operation without communication
  Dtype dtype = Dtype::float32;
  Redop redop = Redop::sum;
  int root = 0;
  std::uint64_t bytes = 0;  // requested size
  bool is_local = false;    // each rank works alone, in a communicator of one rank
};

/// Returns the load "compute:matmul", a matrix product, or "memory:copy", a copy within the memory of each rank. Both
/// loads move no data between ranks. The name may be in upper case. Nothing if there is no load of this name.
std::optional<NeighborLoad> make_local_load(std::string_view name);

inline constexpr std::string_view kMatmulLoad = "compute:matmul";
inline constexpr std::string_view kCopyLoad = "memory:copy";
/// The names that `make_local_load` accepts.
inline constexpr std::string_view kLocalLoads[]{kMatmulLoad, kCopyLoad};

}  // namespace busbw
