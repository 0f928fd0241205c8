#include "backends/nccl/type_support.hpp"

#include <fmt/format.h>

namespace busbw {
namespace {

// NCCL has 8-bit floats since 2.24 (nccl-tests' common.cu goes by that, too). Where a GPU of the communicator is older
// than Hopper it refuses them (taskAppend in its enqueue.cc): to 2.27 for all its collectives but send and receive,
// since 2.28 for those that reduce. Below 2.28 all programs are treated alike here, as in nccl-tests.
constexpr int kFirstWithFloat8 = 22400;
constexpr int kFirstThatMovesFloat8Everywhere = 22800;
constexpr int kTakesFloat8From = 90;

}  // namespace

std::optional<Limitation> type_limitation(Dtype dtype, const OpenedLibrary& library, std::span<const Gpu> gpus, int first_gpu,
                                 bool reduces) {
  if (dtype != Dtype::f8e4m3 && dtype != Dtype::f8e5m2) return std::nullopt;
  if (!is_nccl_version(library.version)) return std::nullopt;
  if (library.version < kFirstWithFloat8)
    return Limitation{library.named() + " has no 8-bit floats", "use 2.24 or later (--library, BUSBW_NCCL_LIBRARY)"};
  if (!reduces && library.version >= kFirstThatMovesFloat8Everywhere) return std::nullopt;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const int has = gpus[i].compute_capability.value_or(kTakesFloat8From);
    if (has >= kTakesFloat8From) continue;
    return Limitation{fmt::format("{} 8-bit floats from compute capability 9.0 on, and GPU {} ({}) has {}.{}",
                            reduces ? "NCCL reduces" : library.named() + " moves", first_gpu + static_cast<int>(i),
                            gpus[i].bus_id, has / 10, has % 10),
                reduces ? "use newer GPUs" : "use newer GPUs, or NCCL 2.28 or later (--library, BUSBW_NCCL_LIBRARY)"};
  }
  return std::nullopt;
}

}  // namespace busbw
