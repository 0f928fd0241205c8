#pragma once
// Backend for GPUs with NCCL, or with a library that has NCCL's interface. Every build has these functions; in a build
// without CUDA they report that GPU support is absent.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "backends/nccl/gpus/gpu.hpp"
#include "backends/nccl/gpus/rank_gpus.hpp"
#include "backends/nccl/nccl_options.hpp"

namespace busbw {

inline constexpr BackendTraits kNcclTraits{.name = "nccl",
                                           .memory = BackendTraits::Memory::gpu,
                                           .clock = BackendTraits::Clock::device_events,
                                           .uses_nccl_library = true};

/// GPUs that this process can use. If there is no GPU, `no_gpu_reason` has the reason and the remedy.
struct GpuSurvey {
  std::vector<Gpu> gpus;
  std::string no_gpu_reason;
  bool build_has_gpu_support = false;                       // false: this build cannot use GPUs
  int unusable_gpus = 0;                                    // GPUs of this machine, if this build cannot use any
  std::vector<std::pair<int, int>> pairs_without_access{};  // GPU pairs, by CUDA's numbers, without peer access
};

/// Version of the NCCL headers of this build, or empty if it has no GPU engine.
std::string nccl_headers();

/// Finds the GPUs that this process can use. If `forks_follow`, a child process looks for them, because CUDA does not
/// survive a fork.
GpuSurvey survey_gpus(bool forks_follow);

/// Ranks and GPUs of this process, and the flags that the backend needs.
struct NcclBackendConfig {
  LocalRanks ranks{.count = 1, .per_process = 1, .first_device = 0};
  int first_rank = 0;        // job rank of the first of these ranks
  std::string library = {};  // --library; empty: search for it
  bool null_stream = false;  // -y
  bool forks = false;        // the ranks run in forks of this process
  int gpus_per_thread = 1;   // -g: one thread issues the operations of this many consecutive ranks
  NcclOptions flags = {};    // flags that change how NCCL is used
};

/// Throws EnvironmentError if a rank would have no GPU (`gpus_of_ranks`), or if no library is found.
std::unique_ptr<Backend> make_nccl_backend(const NcclBackendConfig& config, const GpuSurvey& survey);

}  // namespace busbw
