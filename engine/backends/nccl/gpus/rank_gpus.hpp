#pragma once
// Assigns a GPU to each rank of this process.
#include <map>
#include <string>
#include <vector>

#include "backends/nccl/gpus/gpu.hpp"
#include "common/os/environment.hpp"

namespace busbw {

/// With the value 1, NCCL 2.30 and later accept several ranks on one GPU.
inline constexpr const char* kSharedGpusVariable = "NCCL_MULTI_RANK_GPU_ENABLE";

/// GPUs of the local ranks, in their order. Ranks without a GPU of their own use the visible GPUs again, in turn, if
/// `kSharedGpusVariable` allows it. Otherwise, or without the first GPU, throws EnvironmentError.
std::vector<Gpu> gpus_of_ranks(const std::vector<Gpu>& visible_gpus, int first_device, int ranks,
                               Environment environment);

/// Number of local ranks on each GPU, by CUDA's number.
std::map<int, int> count_ranks_by_gpu(const std::vector<Gpu>& rank_gpus);

}  // namespace busbw
