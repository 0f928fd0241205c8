#include "backends/nccl/type_support.hpp"

#include <fmt/format.h>

namespace busbw {
namespace {

// NCCL has 8-bit floats since 2.24 (nccl-tests' common.cu goes by that, too), and refuses to reduce them where a GPU of the
// communicator is older than Hopper (its enqueue.cc). It moves them on every GPU.
constexpr int kFirstWithFloat8 = 22400;
constexpr int kReducesFloat8From = 90;

}  // namespace

std::optional<Lack> lack_of_type(Dtype dtype, const OpenedLibrary& library, std::span<const Gpu> gpus, int first_gpu,
                                 bool reduces) {
  if (dtype != Dtype::f8e4m3 && dtype != Dtype::f8e5m2) return std::nullopt;
  if (!counts_as_nccl(library.version)) return std::nullopt;
  if (library.version < kFirstWithFloat8)
    return Lack{library.named() + " has no 8-bit floats", "use 2.24 or later (--library, BUSBW_NCCL_LIBRARY)"};
  for (std::size_t i = 0; reduces && i < gpus.size(); ++i) {
    const int has = gpus[i].compute_capability.value_or(kReducesFloat8From);
    if (has >= kReducesFloat8From) continue;
    return Lack{fmt::format("NCCL reduces 8-bit floats from compute capability 9.0 on, and GPU {} ({}) has {}.{}",
                            first_gpu + static_cast<int>(i), gpus[i].bus_id, has / 10, has % 10),
                "use newer GPUs"};
  }
  return std::nullopt;
}

}  // namespace busbw
