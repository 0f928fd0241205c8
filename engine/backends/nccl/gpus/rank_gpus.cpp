// Ranks take the visible GPUs from the first device on, in their order.
#include "backends/nccl/gpus/rank_gpus.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "backends/nccl/gpus/gpu_absence.hpp"
#include "common/support/error.hpp"

namespace busbw {

std::vector<Gpu> gpus_of_ranks(const std::vector<Gpu>& visible_gpus, const LocalRanks& ranks, Environment environment) {
  const int visible = static_cast<int>(visible_gpus.size());
  const bool may_share = environment(kSharedGpusVariable) == "1" && ranks.per_process <= visible;
  // Ranks that share GPUs need only the first GPU of their range. After the last visible GPU they use the first again.
  const int needed_gpus = may_share ? 1 : ranks.count;
  if (ranks.first_device > visible - needed_gpus)
    throw EnvironmentError(fmt::format(
        "GPUs {} to {} are needed for the local ranks, one each, but this process sees {}{}; use fewer ranks "
        "or processes (-t, -g, --processes), make more GPUs visible (CUDA_VISIBLE_DEVICES), or let processes share a "
        "GPU ({}=1 and --processes instead of -t and -g, NCCL 2.30 or later)",
        ranks.first_device, std::int64_t{ranks.first_device} + ranks.count - 1, visible,
        visible_devices_hint(environment("CUDA_VISIBLE_DEVICES"), visible), kSharedGpusVariable));
  std::vector<Gpu> rank_gpus;
  for (int rank = 0; rank < ranks.count; ++rank)
    rank_gpus.push_back(visible_gpus[static_cast<std::size_t>((ranks.first_device + rank) % visible)]);
  return rank_gpus;
}

std::map<int, int> count_ranks_by_gpu(const std::vector<Gpu>& rank_gpus) {
  std::map<int, int> counts;
  for (const Gpu& gpu : rank_gpus) ++counts[gpu.number];
  return counts;
}

}  // namespace busbw
