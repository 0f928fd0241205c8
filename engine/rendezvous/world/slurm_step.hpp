#pragma once
// Slurm's environment variables of the step that this process belongs to.
#include <optional>
#include <string>
#include <vector>

#include "common/os/environment.hpp"

namespace busbw {

/// True if srun started this process as a task. In a batch script, salloc's shell or an interactive step it did not.
/// The task counts in their variables are those that srun would start.
bool is_slurm_task(Environment environment);

/// Returns the tasks of the step on this node, or nothing if Slurm does not set them. Throws UsageError on invalid
/// values.
std::optional<int> slurm_local_size(Environment environment);

/// Returns candidates for the host of task 0: the first node of the step, then the host of srun. In a batch script,
/// srun runs on the first node, and its address works even if node names do not resolve. Throws UsageError if the step
/// spans several components of a heterogeneous job.
std::vector<std::string> slurm_first_hosts(Environment environment);

/// Returns the first port that Slurm reserved for the step, or a port derived from the job and step numbers.
int slurm_port(Environment environment);

}  // namespace busbw
