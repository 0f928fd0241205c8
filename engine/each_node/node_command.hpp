#pragma once
// The command that one process of each node runs, with limits on its time and its output.
#include <cstddef>
#include <string>
#include <tuple>

namespace busbw {

struct CommandLimits {
  double time_s = 10;
  std::size_t output_bytes = std::size_t{1} << 20;
};

/// Outcome of the command on one node.
struct NodeOutput {
  std::string node;     // host name
  std::string problem;  // clause for messages; empty if the command succeeded
  std::string output;   // standard output; incomplete if there is a problem

  /// For messages between processes, see HasMembers.
  static auto members(auto& self) { return std::tie(self.node, self.problem, self.output); }
};

/// Runs a shell command on this node. If the command exceeds a limit, the command and its children are killed. The
/// command inherits this process's standard error. Throws the error of an interrupt, and EnvironmentError if there is
/// no shell or pipe.
NodeOutput run_node_command(const std::string& command, const CommandLimits& limits = {});

}  // namespace busbw
