#pragma once
// Slurm's environment variables of the step that this process belongs to.
#include <optional>
#include <string>
#include <vector>

#include "common/os/environment.hpp"

namespace busbw {

/// True if the variables are those of a task that srun started. False in a batch script, in salloc's shell and in an
/// interactive step: there, Slurm's task counts say how many tasks a later srun would start.
bool is_slurm_task(Environment environment);

/// Returns the number of the step's tasks on this node, or nothing if Slurm does not set it. Throws UsageError on
/// invalid values.
std::optional<int> slurm_local_size(Environment environment);

/// Returns candidates for the host of task 0: the first node of the step, then the host of srun. Called from a batch
/// script, srun runs on the first node, and its address is numeric. Throws UsageError if the step
/// spans several components of a heterogeneous job.
std::vector<std::string> slurm_first_hosts(Environment environment);

/// Returns the first port that Slurm reserved for the step, or a port derived from the job and step numbers.
int slurm_port(Environment environment);

}  // namespace busbw
