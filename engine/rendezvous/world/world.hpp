#pragma once
// Which of several processes this one is: read from what its launcher left in the environment.
#include <optional>
#include <string>
#include <vector>

#include "common/os/ancestors.hpp"
#include "common/os/environment.hpp"
#include "rendezvous/world/store_address.hpp"

namespace busbw {

/// This process among those that were started together. Ranks here are processes, counted from 0.
struct World {
  int rank = 0;
  int size = 1;
  /// Among the processes of this node. Where the launcher does not say: 0, of as few as there can be.
  int local_rank = 0;
  int local_size = 1;
  std::optional<int> node;           // the node's index, where the launcher says so
  std::string launcher = "none";     // "slurm", "openmpi", "mpich", "torchrun", "kubernetes", "busbw"
  StoreAddress store;                // NoStore where `size` is 1
  std::string token;                 // empty: whoever reaches the store is let in
  double join_limit_s = 60;          // how long processes may take to arrive
  std::vector<std::string> notes;    // for the header of the output
};

/// Reads the environment, and where launchers run within launchers the processes that started this one. Throws
/// UsageError where the variables contradict each other, where one has no sense, and where a launcher speaks of several
/// processes but this one would run alone.
World detect_world(Environment environment, Ancestors (*ancestors)() = process_ancestors);

/// The same for processes that have another way to find each other: without `store`, `token` and what they need.
World detect_process(Environment environment, Ancestors (*ancestors)() = process_ancestors);

/// `join_limit_s` alone: BUSBW_JOIN_TIMEOUT_S, or 60, or 600 in a pod of Kubernetes. Throws UsageError.
double find_join_limit_s(Environment environment);

}  // namespace busbw
