#pragma once
// The list of all backends, and the choice by --backend: the backend that runs, and the errors of options that it does
// not support.
#include <memory>
#include <span>
#include <string>

#include "backends/backend.hpp"
#include "backends/nccl/nccl_backend.hpp"
#include "common/os/environment.hpp"
#include "options/options.hpp"
#include "rendezvous/world/world.hpp"

namespace busbw {

/// One backend.
struct BackendEntry {
  BackendTraits traits;
  const char* activity;                    // of `make`; completes "while ..." in messages
  GpuSurvey (*survey)(bool forks_follow);  // null if the backend needs no GPU
  /// Makes the backend for the ranks of this process of the job. Throws UsageError or EnvironmentError if it cannot
  /// run.
  std::unique_ptr<Backend> (*make)(const Options& options, const World& world, const GpuSurvey& survey);
};

/// All backends, in the order in which `--backend auto` tries them.
std::span<const BackendEntry> all_backends();

/// Backend that --backend selects.
struct BackendChoice {
  const BackendEntry* entry = nullptr;
  GpuSurvey survey;  // GPUs that the backend can use
  // Texts about GPUs that `auto` did not find or cannot use. Each is empty unless the condition in its line is true.
  std::string no_gpu_reason;             // the build supports GPUs, but `auto` found none
  std::string unused_gpus_warning = {};  // the machine has GPUs, but the build does not support them
  std::string request_error = {};        // the environment requests GPUs, but `auto` found none
};

/// Surveys the GPUs, unless the selected backend needs none. `forks_follow`: this process will run its ranks in forks.
/// Throws UsageError if there is no backend of this name.
BackendChoice choose_backend(const Options& options, bool forks_follow, Environment environment);

/// Makes the chosen backend. Throws UsageError if the backend does not support an option. Throws EnvironmentError if an
/// option or the environment requests GPUs that were not found: users could take a measurement on the host for one on
/// GPUs. Throws the errors of BackendEntry::make. Processes of a launched job call this after they have joined,
/// so that all processes end with the error of one process.
std::unique_ptr<Backend> make_backend(const BackendChoice& choice, const Options& options, const World& world);

}  // namespace busbw
