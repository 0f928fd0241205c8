#pragma once
// Rank and size of this process among the processes of a job, from the launcher's environment variables.
#include <optional>
#include <string>
#include <vector>

#include "common/os/ancestors.hpp"
#include "common/os/environment.hpp"
#include "rendezvous/world/store_address.hpp"

namespace busbw {

/// Position of this process in the job. Ranks are process numbers here, counted from 0.
struct World {
  int rank = 0;
  int size = 1;
  /// Without information from the launcher, local_rank is 0 and local_size is local_rank + 1.
  int local_rank = 0;
  int local_size = 1;
  std::optional<int> node;           // index of the node, if the launcher gives it
  std::string launcher = "none";     // "slurm", "openmpi", "mpich", "torchrun", "kubernetes", "busbw"
  StoreAddress store;                // NoStore if `size` is 1
  std::string token;                 // empty: the store accepts every connection
  double join_limit_s = 60;          // time limit for all processes to join
  std::vector<std::string> notes;    // for the output header
};

/// Detects this process's position from the environment. For nested launchers it also reads the process's ancestors.
/// Throws UsageError if variables are invalid or contradictory, or if one of several processes would run alone.
World detect_world(Environment environment, Ancestors (*ancestors)() = process_ancestors);

/// Like detect_world, but without `store` and `token`, for processes with another way to find each other (MPI).
World detect_process(Environment environment, Ancestors (*ancestors)() = process_ancestors);

/// Returns BUSBW_JOIN_TIMEOUT_S, or the default of 60 s (600 s in a Kubernetes pod). Throws UsageError if it is
/// invalid.
double find_join_limit_s(Environment environment);

}  // namespace busbw
