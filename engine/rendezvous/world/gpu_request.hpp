#pragma once
// Finds out whether this process was started to measure GPUs, from the variables of its launcher.
#include <optional>
#include <string>

#include "common/os/environment.hpp"

namespace busbw {

/// Returns the variable that requests GPUs, with its value: "SLURM_GPUS_ON_NODE=8". Nothing if no variable requests
/// GPUs. The first variable that is set decides: BUSBW_REQUESTED_GPUS of `busbw launch`, then those of a Slurm
/// allocation.
std::optional<std::string> gpu_request(Environment environment);

}  // namespace busbw
