#pragma once
// Table of launchers and the environment variables in which a launcher tells each process its rank and the job's size.
// launcher_claim.cpp selects the entry of the launcher that started this process. To support another launcher, add an
// entry in launcher_table.cpp.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/environment.hpp"
#include "rendezvous/world/store_address.hpp"

namespace busbw {

/// Alternative names of one variable. The first one that is set is used.
using VariableNames = std::vector<const char*>;

/// One launcher. A member without names means that the launcher sets no such variable.
struct LauncherEntry {
  std::string_view name;          // value of BUSBW_LAUNCHER
  std::string_view title;         // for messages, for example "Open MPI"
  std::string_view start_remedy;  // for messages: how to start the processes correctly
  /// The entry applies only if one of these is set, because other variables, such as RANK, have common names.
  VariableNames required_any = {};
  VariableNames rank = {};
  VariableNames size = {};
  VariableNames local_rank = {};
  VariableNames local_size = {};
  /// Index of the node that runs the process.
  VariableNames node = {};
  /// List of the job's hosts, as expand_hostlist reads it.
  VariableNames host_list = {};
  /// Host of process 0.
  VariableNames host = {};
  /// Variables that together identify the job: equal in all its processes, different in other jobs.
  VariableNames identity = {};
  /// Commands of the launcher's daemons on a node. If launchers are nested, the nearest daemon among the ancestors of
  /// the process identifies the launcher that has started it.
  std::vector<std::string_view> daemons = {};
  // Functions for values that need more than one variable. Null: use the variables above, or the value is unknown.
  /// True if the launcher started this process. False, for example, in a Slurm batch script, which has most of the
  /// variables. Null: not checked.
  bool (*has_started_process)(Environment) = nullptr;
  std::optional<int> (*local_size_from)(Environment) = nullptr;
  /// Candidates for the host of process 0.
  std::vector<std::string> (*hosts_from)(Environment) = nullptr;
  /// Port at which process 0 listens.
  int (*port_from)(Environment) = nullptr;
  /// Key-value store of the launcher, if it offers one to this process.
  std::optional<LauncherStore> (*store_from)(Environment) = nullptr;
  /// Variable with the number of this launcher's agents, if another launcher may start the agents: srun starts agents
  /// of torchrun, and these start the processes.
  const char* agent_count = nullptr;
};

/// Returns all launchers. If several give this process an equal rank and size, the first one is selected.
const std::vector<LauncherEntry>& launcher_table();

}  // namespace busbw
