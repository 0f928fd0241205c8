// Runs a command in the first process of each node, gathers the outputs in process 0, and passes them to the command of
// process 0.
#include "each_node/each_node.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "common/os/provenance.hpp"
#include "common/os/signal_mask.hpp"
#include "common/shell/shell_process.hpp"
#include "common/support/stderr_message.hpp"
#include "output/json_builder.hpp"
#include "rendezvous/launched_job.hpp"

namespace busbw {
namespace {

constexpr double kStepLimitS = 60;  // for an exchange between the processes, including the wait for the slowest command
constexpr double kSilenceS = 30;  // a process without a heartbeat for this time is lost

/// True if this process is the first one on its node. All processes must call it.
bool is_first_on_node(LaunchedJob& job, int process) {
  const auto find_first_processes = [](const std::vector<Bytes>& messages) {
    std::set<std::string> seen_hosts;
    std::vector<std::uint8_t> is_first;  // [process]
    for (const Bytes& message : messages) {
      const auto [host, is_new] = seen_hosts.insert(MessageReader(message).take_text());
      is_first.push_back(is_new);
    }
    return MessageWriter().add(is_first).bytes();
  };
  const Bytes decision = job.agree(MessageWriter().add(host_identity()).bytes(), find_first_processes);
  return MessageReader(decision).take<std::vector<std::uint8_t>>().at(static_cast<std::size_t>(process)) != 0;
}

/// Returns the outputs of all nodes in process 0, in the order of the processes. Empty in the other processes.
std::vector<NodeOutput> gather_outputs(LaunchedJob& job, int process, const std::string& command) {
  std::vector<NodeOutput> own_outputs;
  if (is_first_on_node(job, process)) own_outputs.push_back(run_node_command(command));
  std::vector<NodeOutput> outputs;
  // agree() calls the function only in process 0. Its result is empty, because no process needs one.
  job.agree(MessageWriter().add(own_outputs).bytes(), [&](const std::vector<Bytes>& messages) {
    for (const Bytes& message : messages)
      for (NodeOutput& output : MessageReader(message).take<std::vector<NodeOutput>>())
        outputs.push_back(std::move(output));
    return Bytes();
  });
  return outputs;
}

std::vector<NodeOutput> outputs_of_job(const std::string& program, const World& world, const std::string& command) {
  LaunchedJob job({.process = world.rank,
                   .processes = world.size,
                   .ranks_per_process = 1,
                   .store = world.store,
                   .token = world.token,
                   .join_limit_s = world.join_limit_s,
                   .step_limit_s = kStepLimitS,
                   .silence_s = kSilenceS},
                  {.on_status = [&](const std::string& message) { print_stderr(program, message); },
                   .on_tick = throw_if_interrupted});
  try {
    std::vector<NodeOutput> outputs = gather_outputs(job, world.rank, command);
    job.leave();
    return outputs;
  } catch (const std::exception& error) {
    job.abort_and_throw(error, error.what());
  }
}

/// Runs the command of process 0 with `input` as its standard input. Returns its exit code.
int run_collector(const std::string& program, const std::string& command, std::string_view input) {
  // A file in memory, unlike a pipe, needs no second thread that writes while the command reads.
  const Descriptor file(memfd_create("node outputs", MFD_CLOEXEC));
  for (std::size_t written = 0; written < input.size();) {
    const ssize_t count = write(file.number(), input.data() + written, input.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw EnvironmentError(fmt::format("cannot store the outputs: {}; free memory", strerror(errno)));
    written += static_cast<std::size_t>(count);
  }
  lseek(file.number(), 0, SEEK_SET);
  const int code = wait_for_shell(start_shell(command, {.stdin_fd = file.number()}));
  if (code != kCommandNotFound) return code;
  print_stderr(program, "process 0 needs the busbw command on its node; install the wheel there");
  return static_cast<int>(ExitCode::environment);
}

}  // namespace

std::string output_lines(const std::vector<NodeOutput>& outputs) {
  std::string lines;
  for (const NodeOutput& output : outputs) {
    JsonBuilder json;
    json.open_object();
    json.field("node", output.node);
    json.field("problem", output.problem);
    json.field("output", output.output);
    json.close_object();
    json.end_line();
    lines += json.text();
  }
  return lines;
}

int run_each_node(const std::string& program, const std::vector<std::string>& arguments, const World& world) {
  if (arguments.size() != 2)
    throw UsageError(fmt::format(
        "each-node takes two commands, got {} words; give one for each node and one for process 0", arguments.size()));
  const SignalMask mask;
  const std::string& node_command = arguments[0];
  const std::string& collector = arguments[1];
  std::vector<NodeOutput> outputs;
  if (world.size > 1)
    outputs = outputs_of_job(program, world, node_command);
  else
    outputs.push_back(run_node_command(node_command));
  return world.rank == 0 ? run_collector(program, collector, output_lines(outputs)) : 0;
}

}  // namespace busbw
