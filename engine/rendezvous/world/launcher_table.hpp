#pragma once
// ADD A LAUNCHER'S VARIABLES HERE: what each launcher tells the processes that it starts.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/environment.hpp"

namespace busbw {

/// VariableNames of one meaning; the first one that is set counts.
using VariableNames = std::vector<const char*>;

/// One launcher. `title` and `start` are for sentences: "... {title} ...; {start}".
struct LauncherEntry {
  std::string_view name;   // as in BUSBW_LAUNCHER
  std::string_view title;  // "Open MPI"
  std::string_view start_remedy;  // how to start several processes that find each other
  /// The row is looked at only where one of these is set: some of the others are everyday words.
  VariableNames required_any;
  VariableNames rank;
  VariableNames size;
  VariableNames local_rank;
  VariableNames local_size;
  VariableNames node;
  /// Where process 0 is, and at which port it may listen.
  VariableNames host;
  /// What all processes of the job have in common, and no other job has.
  VariableNames identity;
  /// The commands that start processes on a node: the nearest among a process's ancestors is the one that counts.
  std::vector<std::string_view> daemons;
  /// Where plain variables are not enough; null: they are.
  bool (*is_process)(Environment) = nullptr;
  std::optional<int> (*local_size_from)(Environment) = nullptr;
  std::vector<std::string> (*hosts_from)(Environment) = nullptr;
  int (*port_from)(Environment) = nullptr;
  /// The processes of a launcher may each be the agent of another one: how many agents there are.
  const char* agents = nullptr;
};

/// All launchers; of several that agree the first one counts.
const std::vector<LauncherEntry>& launcher_table();

}  // namespace busbw
