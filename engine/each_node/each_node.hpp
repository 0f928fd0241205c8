#pragma once
// The program `each-node`: runs a command on each node of a job, and gives all outputs to a command in process 0. The
// program needs no backend, no GPU and no standard input, so it works in batch jobs and pods.
#include <string>
#include <vector>

#include "each_node/node_command.hpp"
#include "rendezvous/world/world.hpp"

namespace busbw {

/// First argument of the engine that selects this program.
inline constexpr std::string_view kEachNodeName = "each-node";

/// Runs this process's part of the job. `arguments`: the command for each node, and the command for process 0, which
/// reads one JSON object per node on standard input. Both are in the syntax of a shell. Returns the exit code, which in
/// process 0 is that of its command. Throws Error if processes do not join, and UsageError if `arguments` are not two
/// commands.
int run_each_node(const std::string& program, const std::vector<std::string>& arguments, const World& world);

/// Returns one line of JSON for each node: `{"node": "n1", "problem": "", "output": "..."}`.
std::string output_lines(const std::vector<NodeOutput>& outputs);

}  // namespace busbw
