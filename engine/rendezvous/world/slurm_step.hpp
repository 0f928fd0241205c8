#pragma once
// Reads Slurm's environment variables of the step, the set of tasks that one srun starts. The entry "slurm" of
// launcher_table.cpp uses these functions.
#include <optional>
#include <string>
#include <vector>

#include "common/os/environment.hpp"

namespace busbw {

/// True if srun started this process as a task. False in a batch script, in salloc's shell and in an interactive step:
/// Slurm's task counts there are those of a later srun.
bool is_slurm_task(Environment environment);

/// Returns the number of the step's tasks on this node, or nothing if Slurm does not set it. Throws UsageError on
/// invalid values.
std::optional<int> slurm_local_size(Environment environment);

/// Returns candidates for the host of task 0: the first node of the step, then the address of srun's host. A batch
/// script runs srun on the first node, and srun's address needs no name lookup. Throws UsageError if the step spans
/// several components of a heterogeneous job.
std::vector<std::string> slurm_first_hosts(Environment environment);

/// Returns the first port that Slurm reserved for the step, or a port derived from the job and step numbers.
int slurm_port(Environment environment);

}  // namespace busbw
