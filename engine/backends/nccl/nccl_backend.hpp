#pragma once
// GPUs with NCCL, or with a library that has NCCL's interface. What is declared here is there in every build; a build
// without CUDA has no GPUs and says so.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "backends/faults.hpp"
#include "backends/nccl/nccl_options.hpp"

namespace busbw {

/// A GPU as CUDA numbers it for this process.
struct Gpu {
  std::string name;    // "NVIDIA H200"
  std::string bus_id;  // "0000:0f:00"
  std::optional<std::size_t> free_bytes;  // known where the survey was made before forks
  std::optional<int> compute_capability{};  // 90 for 9.0
};

/// The GPUs that this process may use. Where there are none, `why_none` says why, and what to do.
struct GpuSurvey {
  std::vector<Gpu> gpus;
  std::string no_gpu_reason;
  bool has_gpu_support = false;  // this build can use GPUs, where there are any
  std::vector<std::pair<int, int>> pairs_without_access{};  // to each other's memory, by CUDA's numbers
};

/// The version of NCCL's headers that this build was made with; empty where it has no GPU engine.
std::string nccl_headers();

/// `forks_follow`: looks in a child process, because a process that has looked cannot be forked any more.
GpuSurvey survey_gpus(bool forks_follow);

struct NcclBackendConfig {
  int ranks = 1;          // that this process, and what it forks, runs
  int first_rank = 0;     // of them, in the job
  int first_device = 0;   // of the first of them
  std::string library = {};  // --library; empty: look for it
  bool null_stream = false;  // -y
  bool forks = false;        // the ranks run in forks of this process
  int gpus_per_thread = 1;   // -g: so many ranks, one after the other, have their operations launched by one thread
  Faults faults = {};        // --fault
  NcclOptions flags = {};
};

/// Throws EnvironmentError where a rank would have no GPU of its own, or where there is no library.
std::unique_ptr<Backend> make_nccl_backend(const NcclBackendConfig& request, const GpuSurvey& survey);

}  // namespace busbw
