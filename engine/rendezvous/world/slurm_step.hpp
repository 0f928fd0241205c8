#pragma once
// Reads Slurm's environment variables of a step. A step is the set of tasks that one srun starts; a task is a process.
// The entry "slurm" of launcher_table.cpp uses these functions.
#include <optional>
#include <string>
#include <vector>

#include "common/os/environment.hpp"

namespace busbw {

/// True if srun started this process or one of its ancestors as a task. False in a batch script, in salloc's shell and
/// in an interactive step. There, Slurm's variables contain the task count for an srun that may be started later.
bool is_slurm_task(Environment environment);

/// Returns the number of the step's tasks on this node, or nothing if Slurm does not state the number. Throws
/// UsageError on invalid values.
std::optional<int> slurm_local_size(Environment environment);

/// Returns candidates for the host of task 0: the first node of the step, then the address of srun's host. The second
/// one helps if the node's name cannot be resolved and srun runs on the first node, as in a batch script. Throws
/// UsageError on invalid values, or if the step spans several components of a heterogeneous job.
std::vector<std::string> slurm_first_host_candidates(Environment environment);

/// Returns the first port that Slurm reserved for the step, or a port derived from the job and step numbers. Throws
/// UsageError if the reserved port is invalid.
int slurm_port(Environment environment);

}  // namespace busbw
