#pragma once
// Reads this process's rank and its job's size from the launcher's environment variables (launcher_table.hpp), and
// determines the address of the job's rendezvous store.
#include <optional>
#include <string>
#include <vector>

#include "common/os/environment.hpp"
#include "common/os/process_status.hpp"
#include "rendezvous/world/store_address.hpp"

namespace busbw {

/// This process's position in its job. `rank` and `size` count processes here, as launchers do, not GPUs.
struct World {
  int rank = 0;
  int size = 1;
  int local_rank = 0;                // index among the job's processes on this node; 0 if unknown
  int local_size = 1;                // processes on this node; if unknown, the minimum: local_rank + 1
  std::optional<int> node;           // index of the node; nothing if unknown
  std::string launcher = "none";     // LauncherEntry::name, or "none" if `size` is 1 without a launcher
  StoreAddress store;                // NoStore if `size` is 1
  std::string token;                 // empty: the store accepts every connection
  double join_limit_s = 60;          // time limit for all processes to join
  /// Hosts in the order of the nodes. Empty if the hosts are unknown, or have different numbers of processes.
  std::vector<std::string> hosts;
  std::vector<std::string> notes;  // for the output header
};

/// Detects this process's position from the environment. Calls `ancestors` in two cases:
/// - The variables of several launchers with daemons are set, because the launchers are nested. The closest ancestor
///   that is such a daemon belongs to the launcher that started this process.
/// - All processes are on one node, and the launcher's variables do not name the job. Then the process id of the
///   launcher's daemon, an ancestor of all processes, distinguishes this job from others.
///
/// Throws UsageError if variables are invalid or contradictory, or if the launcher started several processes but their
/// ranks are unknown, so that each would run alone.
World detect_world(Environment environment, Ancestors (*ancestors)() = process_ancestors);

/// Returns BUSBW_JOIN_TIMEOUT_S, or the default of 60 s (600 s in a Kubernetes pod). Throws UsageError if the variable
/// is invalid.
double find_join_limit_s(Environment environment);

}  // namespace busbw
