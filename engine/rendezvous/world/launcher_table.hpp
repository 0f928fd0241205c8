#pragma once
// Table of launchers and their environment variables. To support another launcher, add it here.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/environment.hpp"

namespace busbw {

/// Alternative names of one variable. The first one that is set counts.
using VariableNames = std::vector<const char*>;

/// One launcher. `title` and `start_remedy` are parts of messages: "... {title} ...; {start_remedy}".
struct LauncherEntry {
  std::string_view name;          // value of BUSBW_LAUNCHER
  std::string_view title;         // for example "Open MPI"
  std::string_view start_remedy;  // remedy that starts the processes correctly
  /// The entry applies only if one of these is set, because other variables, such as RANK, have common names.
  VariableNames required_any;
  VariableNames rank;
  VariableNames size;
  VariableNames local_rank;
  VariableNames local_size;
  VariableNames node;
  /// Host of process 0.
  VariableNames host;
  /// Variables that together identify the job: equal in all its processes, different in other jobs.
  VariableNames identity;
  /// Commands of the launcher's daemons on a node. The daemon that is the nearest ancestor of the process counts.
  std::vector<std::string_view> daemons;
  /// Functions for values that need more than plain variables. Null if not needed.
  bool (*is_process)(Environment) = nullptr;
  std::optional<int> (*local_size_from)(Environment) = nullptr;
  std::vector<std::string> (*hosts_from)(Environment) = nullptr;
  int (*port_from)(Environment) = nullptr;
  /// Variable with the number of agents, if each process of another launcher may be an agent of this one.
  const char* agents = nullptr;
};

/// Returns all launchers. The first of several launchers that agree counts.
const std::vector<LauncherEntry>& launcher_table();

}  // namespace busbw
