#pragma once
// Assigns a GPU to each rank of this process.
#include <map>
#include <vector>

#include "backends/nccl/gpus/gpu.hpp"
#include "common/os/environment.hpp"

namespace busbw {

/// With the value 1, NCCL 2.30 and later accept several ranks on one GPU.
inline constexpr const char* kSharedGpusVariable = "NCCL_MULTI_RANK_GPU_ENABLE";

/// Ranks of this process and its forks.
struct LocalRanks {
  int count;
  int per_process;   // consecutive ranks that are threads of one process
  int first_device;  // CUDA's number of the first rank's GPU
};

/// GPUs of the local ranks, in their order. Processes without a GPU of their own use the visible GPUs again, in turn,
/// if `kSharedGpusVariable` allows it.
///
/// Threads of one process cannot share a GPU, because the GPU runs their kernels at the same time. If not all kernels
/// fit, the running kernels wait forever for the others. This was seen on an H100 with three ranks and 64 channels: 192
/// thread blocks for 132 multiprocessors. Kernels of different processes take turns.
///
/// Throws EnvironmentError if a rank would have no GPU.
std::vector<Gpu> gpus_of_ranks(const std::vector<Gpu>& visible_gpus, const LocalRanks& ranks, Environment environment);

/// Number of local ranks on each GPU, by CUDA's number.
std::map<int, int> count_ranks_by_gpu(const std::vector<Gpu>& rank_gpus);

}  // namespace busbw
