#pragma once
// Determines which element types NCCL supports, by its version and by the GPUs of the local ranks.
#include <optional>
#include <span>

#include "backends/nccl/nccl_backend.hpp"
#include "backends/nccl/open_library.hpp"

namespace busbw {

/// Reason why the library cannot move elements of a type, or cannot reduce them if `reduces`; nothing if it can.
/// `gpus`: GPUs of the local ranks.
std::optional<Limitation> type_limitation(Dtype dtype, const OpenedLibrary& library, std::span<const Gpu> gpus,
                                          bool reduces);

}  // namespace busbw
