// Reads this process's position from the variables of its launcher (launcher_claim.hpp), adds the address of process 0
// (job_address.hpp) and the job's token.
#include "rendezvous/world/world.hpp"

#include <fmt/format.h>

#include "common/support/error.hpp"
#include "common/support/printable.hpp"
#include "common/values/quantity.hpp"
#include "rendezvous/world/hostlist.hpp"
#include "rendezvous/world/job_address.hpp"
#include "rendezvous/world/launcher_claim.hpp"
#include "rendezvous/world/token.hpp"
#include "rendezvous/world/variable_setting.hpp"

namespace busbw {
namespace {

constexpr const char* kJoinTimeout = "BUSBW_JOIN_TIMEOUT_S";

/// Returns the number of processes on this node, or nothing if the launcher does not state the number.
std::optional<int> find_local_size(Environment environment, const LauncherEntry& launcher) {
  if (launcher.local_size_from) return launcher.local_size_from(environment);
  const auto size = read_whole_number(environment, launcher.local_size, 1);
  return size ? std::optional(size->value) : std::nullopt;
}

/// Returns the hosts of a list. Empty if the list is invalid, which is no error, because the hosts are only for
/// messages.
std::vector<std::string> known_hosts(std::string_view list) {
  try {
    return expand_hostlist(list);
  } catch (const UsageError&) {
    return {};
  }
}

/// Sets launcher, rank, size, node, hosts and join limit in `world`. Returns the result of find_local_size(); nothing
/// for a job of one process.
std::optional<int> read_process(Environment environment, const LauncherClaim& claim, World& world) {
  const LauncherEntry& launcher = *claim.launcher;
  world.launcher = launcher.name;
  world.rank = claim.rank->value;
  world.size = claim.size->value;
  if (world.size == 1) return std::nullopt;
  const auto local_size = find_local_size(environment, launcher);
  const auto local_rank = read_whole_number(environment, launcher.local_rank);
  world.local_rank = local_rank ? local_rank->value : 0;
  world.local_size = local_size.value_or(world.local_rank + 1);
  if (world.local_rank >= world.local_size || world.local_size > world.size)
    throw UsageError(
        fmt::format("{} of {} processes on this node and {} in the job ({}): allowed are at most as many "
                    "processes on a node as in the job, counted from 0",
                    local_rank ? to_text(*local_rank) : "process 0", world.local_size, world.size, launcher.title));
  if (const auto node = read_whole_number(environment, launcher.node)) world.node = node->value;
  if (const auto list = find_first_set(environment, launcher.host_list)) world.hosts = known_hosts(list->text);
  // The list does not say how many processes each host has, so it is useful only if all hosts have equally many.
  if (local_size && static_cast<std::size_t>(*local_size) * world.hosts.size() != static_cast<std::size_t>(world.size))
    world.hosts.clear();
  world.join_limit_s = find_join_limit_s(environment);
  return local_size;
}

}  // namespace

double find_join_limit_s(Environment environment) {
  constexpr double kDefaultLimitS = 60;
  // Pods start at different times, because nodes must be allocated and images pulled.
  constexpr double kKubernetesLimitS = 600;
  if (const auto text = environment(kJoinTimeout)) {
    const auto seconds = parse_number(*text);
    if (!seconds || *seconds <= 0)
      throw UsageError(
          fmt::format("{}={}: allowed is a number of seconds above 0", kJoinTimeout, printable_value(*text)));
    return *seconds;
  }
  const bool in_pod = environment("JOB_COMPLETION_INDEX") || environment("KUBERNETES_SERVICE_HOST");
  return in_pod ? kKubernetesLimitS : kDefaultLimitS;
}

World detect_world(Environment environment, Ancestors (*ancestors)()) {
  World world;
  const auto claim = select_claim(environment, ancestors, world.notes);
  if (!claim) {
    const auto store = environment(kRendezvousVariable);
    if (store && environment(kLauncherVariable) != kNoLauncher)
      throw UsageError(
          fmt::format("{}={} is set, but the rank and the number of processes are not, so this process "
                      "would run alone; set BUSBW_RANK and BUSBW_SIZE, {}",
                      kRendezvousVariable, printable_value(*store), kAloneRemedy));
    return world;
  }
  const auto local_size = read_process(environment, *claim, world);
  if (world.size == 1) return world;

  const LauncherEntry& launcher = *claim->launcher;
  const auto [store, identity] = find_job_address(environment, *claim, local_size, ancestors);
  world.store = store;
  if (auto token = find_token(environment)) {
    world.token = *std::move(token);
    return world;
  }
  // In a launcher's store, process 0 publishes a random token together with its address.
  if (std::holds_alternative<LauncherStoreChoice>(world.store)) return world;
  if (!identity.empty()) {
    world.token = identity;
    world.notes.push_back(
        fmt::format("The job's token is derived from {}'s name of the job: it separates jobs, but is not "
                    "secret; set BUSBW_TOKEN_FILE to a secret one",
                    launcher.title));
  } else if (std::holds_alternative<TcpStoreAddress>(world.store)) {
    world.notes.push_back("The job has no token: any process that reaches process 0 could join; set BUSBW_TOKEN_FILE");
  }
  return world;
}

}  // namespace busbw
