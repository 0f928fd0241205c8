// Reads the variables of a Slurm step: whether srun started this process, the step's nodes, tasks per node and port.
#include "rendezvous/world/slurm_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string_view>

#include "common/support/comma_list.hpp"
#include "common/support/error.hpp"
#include "common/support/printable.hpp"
#include "common/values/quantity.hpp"
#include "rendezvous/world/derived_port.hpp"
#include "rendezvous/world/hostlist.hpp"
#include "rendezvous/world/store_address.hpp"

namespace busbw {
namespace {

/// Lowest number of special steps, such as batch, extern and interactive (slurm.h: SLURM_MAX_NORMAL_STEP_ID).
constexpr std::uint64_t kFirstSpecialStep = 0xfffffff0;
constexpr int kMaxTasksOrNodes = 1 << 24;  // far above any cluster, so that sums do not overflow
constexpr std::uint64_t kMaxComponents = 128;  // slurm.h: MAX_HET_JOB_COMPS

/// Returns the number in the first variable that is set. Nothing if none is set, or if its text is not a number.
std::optional<std::uint64_t> read_number(Environment environment, std::initializer_list<const char*> variables) {
  for (const char* variable : variables)
    if (const auto text = environment(variable)) return parse_digits(*text);
  return std::nullopt;
}

/// Returns the number of tasks on the node with index `node`, or nothing if `text` is invalid. An example of `text` is
/// "2(x3),1": two tasks on each of the first three nodes, one on the fourth.
std::optional<int> parse_tasks_on_node(std::string_view text, std::uint64_t node) {
  constexpr std::string_view kRepeatStart = "(x";
  std::uint64_t end_node = 0;  // index after the last node of the parts so far
  for (const std::string_view part : split_at_commas(text)) {
    const std::size_t repeat_start = part.find(kRepeatStart);
    const auto tasks = parse_digits(part.substr(0, repeat_start));
    std::optional<std::uint64_t> nodes = 1;
    if (repeat_start != part.npos) {
      std::string_view repeat = part.substr(repeat_start + kRepeatStart.size());
      if (!repeat.ends_with(')')) return std::nullopt;
      repeat.remove_suffix(1);
      nodes = parse_digits(repeat);
    }
    if (!tasks || !nodes || *tasks > kMaxTasksOrNodes || *nodes > kMaxTasksOrNodes) return std::nullopt;
    end_node += *nodes;
    if (node < end_node) return static_cast<int>(*tasks);
  }
  return std::nullopt;
}

/// Throws if no component of a heterogeneous job contains all `nodes` of the step. The node list of such a step is
/// sorted over all components, so the first node need not run task 0.
void require_one_component(Environment environment, const std::vector<std::string>& nodes) {
  const std::uint64_t components = read_number(environment, {"SLURM_HET_SIZE"}).value_or(1);
  if (components < 2) return;
  for (std::uint64_t i = 0; i < std::min(components, kMaxComponents); ++i) {
    const auto list = environment(fmt::format("SLURM_JOB_NODELIST_HET_GROUP_{}", i).c_str());
    if (!list) continue;
    const std::vector<std::string> expanded = expand_hostlist(*list);
    const std::set<std::string> component_nodes(expanded.begin(), expanded.end());
    if (std::ranges::all_of(nodes, [&](const std::string& node) { return component_nodes.contains(node); })) return;
  }
  throw UsageError(fmt::format(
      "SLURM_HET_SIZE={} with SLURM_STEP_NODELIST={}: the step spans several components of the Slurm job, so "
      "the node of its first task is unknown; set BUSBW_RENDEZVOUS=tcp://HOST:PORT, HOST being the first node "
      "of the first component, and BUSBW_TOKEN_FILE",
      components, printable_value(environment("SLURM_STEP_NODELIST").value_or(""))));
}

}  // namespace

bool is_slurm_task(Environment environment) {
  const auto step = read_number(environment, {"SLURM_STEP_ID", "SLURM_STEPID"});
  return step && *step < kFirstSpecialStep;
}

std::optional<int> slurm_local_size(Environment environment) {
  const auto tasks = environment("SLURM_STEP_TASKS_PER_NODE");
  if (!tasks) return std::nullopt;
  const auto node = read_number(environment, {"SLURM_NODEID"});
  const auto local_tasks = node ? parse_tasks_on_node(*tasks, *node) : std::nullopt;
  if (!local_tasks)
    throw UsageError(
        fmt::format("SLURM_STEP_TASKS_PER_NODE={} with SLURM_NODEID={}: not the tasks of each node of "
                    "the step, such as 2(x3),1; leave Slurm's variables as srun sets them",
                    printable_value(*tasks), printable_value(environment("SLURM_NODEID").value_or("(not set)"))));
  return local_tasks;
}

std::vector<std::string> slurm_first_host_candidates(Environment environment) {
  std::vector<std::string> hosts;
  if (const auto list = environment("SLURM_STEP_NODELIST")) {
    const std::vector<std::string> nodes = expand_hostlist(*list);
    require_one_component(environment, nodes);
    hosts.push_back(nodes.front());
  }
  if (const auto launcher = environment("SLURM_LAUNCH_NODE_IPADDR"))
    hosts.push_back(require_host(*launcher, "SLURM_LAUNCH_NODE_IPADDR"));
  return hosts;
}

int slurm_port(Environment environment) {
  if (const auto ports = environment("SLURM_STEP_RESV_PORTS"))
    return parse_port(std::string_view(*ports).substr(0, ports->find_first_of("-,")), "SLURM_STEP_RESV_PORTS");
  // Each job has its own range of ports, so that its first steps do not share a port with the next job.
  constexpr std::uint64_t kPortsPerJob = 16;
  const std::uint64_t job = read_number(environment, {"SLURM_JOB_ID", "SLURM_JOBID"}).value_or(0);
  const std::uint64_t step = read_number(environment, {"SLURM_STEP_ID", "SLURM_STEPID"}).value_or(0);
  return derived_port(job * kPortsPerJob + step);
}

}  // namespace busbw
