#pragma once
// What Slurm's variables say of the step that this process belongs to.
#include <optional>
#include <string>
#include <vector>

#include "common/os/environment.hpp"

namespace busbw {

/// Whether srun started this process as a task. A batch script, the shell of salloc and an interactive step have an
/// allocation, but are no tasks: what the variables count there is what srun would start.
bool is_slurm_task(Environment environment);

/// Tasks of the step on this process's node, where Slurm says so. Throws UsageError on values that Slurm does not
/// write.
std::optional<int> slurm_local_size(Environment environment);

/// Where task 0 runs: the first node of the step, and as a second try the host of srun, since a batch script's srun
/// runs on the first node and its address is known even where the names of nodes are not. Throws UsageError where the
/// step spans several components of a heterogeneous job.
std::vector<std::string> slurm_first_hosts(Environment environment);

/// The first of the ports that Slurm reserved for the step, or one made of the job's and the step's number.
int slurm_port(Environment environment);

}  // namespace busbw
