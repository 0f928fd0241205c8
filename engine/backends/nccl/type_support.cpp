// Rules for 8-bit floats. Every supported NCCL version and every GPU supports all other types.
#include "backends/nccl/type_support.hpp"

#include <fmt/format.h>

namespace busbw {
namespace {

// NCCL has 8-bit floats since 2.24; nccl-tests checks the same version. If a GPU of the communicator is older than
// Hopper (compute capability 9.0), NCCL refuses 8-bit floats in some operations (taskAppend in its enqueue.cc). Since
// 2.28, it refuses them in collectives that reduce. Up to 2.27, it refuses them in all operations except send and
// receive; this code refuses them in send and receive, too, as nccl-tests does.
constexpr int kFirstVersionWithFloat8 = 22400;
constexpr int kFirstVersionToMoveFloat8OnAllGpus = 22800;
constexpr int kMinFloat8Capability = 90;

}  // namespace

std::optional<Limitation> type_limitation(Dtype dtype, const OpenedLibrary& library, std::span<const Gpu> gpus,
                                          bool reduces) {
  if (dtype != Dtype::f8e4m3 && dtype != Dtype::f8e5m2) return std::nullopt;
  if (!is_nccl_version(library.version)) return std::nullopt;
  if (library.version < kFirstVersionWithFloat8)
    return Limitation{library.name_text() + " has no 8-bit floats",
                      "use 2.24 or later (--library, BUSBW_NCCL_LIBRARY)"};
  if (!reduces && library.version >= kFirstVersionToMoveFloat8OnAllGpus) return std::nullopt;
  for (const Gpu& gpu : gpus) {
    const int capability = gpu.compute_capability.value_or(kMinFloat8Capability);
    if (capability >= kMinFloat8Capability) continue;
    return Limitation{
        fmt::format("{} 8-bit floats from compute capability 9.0 on, but GPU {} ({}) has {}.{}",
                    reduces ? "NCCL reduces" : library.name_text() + " moves", gpu.number, gpu.bus_id, capability / 10,
                    capability % 10),
        reduces ? "use newer GPUs" : "use newer GPUs, or NCCL 2.28 or later (--library, BUSBW_NCCL_LIBRARY)"};
  }
  return std::nullopt;
}

}  // namespace busbw
