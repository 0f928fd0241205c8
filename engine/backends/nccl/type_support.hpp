#pragma once
// Which element types NCCL can do, by its version and by the GPUs.
#include <optional>
#include <span>

#include "backends/nccl/nccl_backend.hpp"
#include "backends/nccl/open_library.hpp"

namespace busbw {

/// What a type lacks to be moved, or reduced by the library where `reduces`. `gpus` are those of the ranks here, of
/// which CUDA calls the first `first_gpu`.
std::optional<Limitation> type_limitation(Dtype dtype, const OpenedLibrary& library, std::span<const Gpu> gpus, int first_gpu,
                                 bool reduces);

}  // namespace busbw
