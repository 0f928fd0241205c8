// Reads from a launcher's variables which process of which job this is, and the address of process 0. If several
// launchers are nested, selects the launcher that started this process.
#include "rendezvous/world/world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "common/support/error.hpp"
#include "common/support/fnv1a.hpp"
#include "common/support/printable.hpp"
#include "common/values/quantity.hpp"
#include "rendezvous/world/derived_port.hpp"
#include "rendezvous/world/hostlist.hpp"
#include "rendezvous/world/launcher_table.hpp"
#include "rendezvous/world/token.hpp"

namespace busbw {
namespace {

constexpr const char* kLauncher = "BUSBW_LAUNCHER";
constexpr const char* kRendezvous = "BUSBW_RENDEZVOUS";
constexpr const char* kJoinTimeout = "BUSBW_JOIN_TIMEOUT_S";
constexpr std::string_view kNone = "none";          // value of BUSBW_LAUNCHER
constexpr std::string_view kTorchrunNone = "none";  // TORCHELASTIC_RUN_ID of a job without a name
constexpr std::string_view kAloneRemedy = "or set BUSBW_LAUNCHER=none to run this process alone on purpose";

/// Name and text of an environment variable. The text is not empty.
struct VariableSetting {
  std::string variable;
  std::string text;
};

std::string to_text(const VariableSetting& setting) {
  return fmt::format("{}={}", setting.variable, printable_value(setting.text));
}

/// Returns the first of `variables` that is set and not empty.
std::optional<VariableSetting> find_first_set(Environment environment, const VariableNames& variables) {
  for (const char* variable : variables)
    if (auto text = environment(variable); text && !text->empty()) return VariableSetting{variable, *std::move(text)};
  return std::nullopt;
}

struct NumericVariable : VariableSetting {
  int value = 0;
};

/// Returns the first of `variables` that is set, as a number. Throws UsageError if its text is not a whole number from
/// `min` on.
std::optional<NumericVariable> read_number(Environment environment, const VariableNames& variables, int min = 0) {
  const auto setting = find_first_set(environment, variables);
  if (!setting) return std::nullopt;
  constexpr int kMax = std::numeric_limits<int>::max();
  const auto value = parse_digits(setting->text);
  if (!value || *value < static_cast<unsigned>(min) || *value > kMax)
    throw UsageError(
        fmt::format("{}: allowed is a whole number from {} to {}; or set BUSBW_LAUNCHER to the launcher "
                    "that started this process",
                    to_text(*setting), min, kMax));
  return NumericVariable{*setting, static_cast<int>(*value)};
}

/// Rank of this process and size of its job, according to one launcher's variables. With nested launchers there are
/// several claims, and at most one counts.
struct LauncherClaim {
  const LauncherEntry* launcher;
  std::optional<NumericVariable> rank;
  std::optional<NumericVariable> size;

  bool is_complete() const { return rank && size; }
  bool has_several_processes() const { return size && size->value > 1; }
  /// Both claims must be complete.
  bool agrees_with(const LauncherClaim& other) const {
    return rank->value == other.rank->value && size->value == other.size->value;
  }
};

std::string to_text(const LauncherClaim& claim) {
  return fmt::format("{} {} ({})", to_text(*claim.rank), to_text(*claim.size), claim.launcher->title);
}

/// Returns the claim of a launcher. Rank and size are missing if the launcher did not start this process.
LauncherClaim read_claim(Environment environment, const LauncherEntry& launcher) {
  LauncherClaim claim{&launcher, {}, {}};
  if (!find_first_set(environment, launcher.required_any)) return claim;
  if (launcher.has_started_process && !launcher.has_started_process(environment)) return claim;
  claim.rank = read_number(environment, launcher.rank);
  claim.size = read_number(environment, launcher.size, 1);
  if (claim.is_complete() && claim.rank->value >= claim.size->value)
    throw UsageError(fmt::format("{} with {}: allowed is a number from 0 to {}", to_text(*claim.rank),
                                 to_text(*claim.size), claim.size->value - 1));
  return claim;
}

/// Returns the launcher with the name in BUSBW_LAUNCHER. Throws UsageError if the name is unknown.
const LauncherEntry* find_launcher(std::string_view name) {
  const auto& table = launcher_table();
  const auto launcher = std::ranges::find(table, name, &LauncherEntry::name);
  if (launcher != table.end()) return &*launcher;
  std::string names;
  for (const LauncherEntry& entry : table) names += fmt::format("{}, ", entry.name);
  throw UsageError(fmt::format("{}={}: allowed are {}and {}", kLauncher, printable_value(name), names, kNone));
}

/// Throws if the launcher's variables mean several processes, but rank or size is missing.
void require_complete(const LauncherClaim& claim) {
  const LauncherEntry& launcher = *claim.launcher;
  if (claim.has_several_processes() && !claim.rank)
    throw UsageError(fmt::format(
        "{} means {} processes, but {} is not set, so this process would "
        "run alone; {}, {}",
        to_text(*claim.size), claim.size->value, launcher.rank.front(), launcher.start_remedy, kAloneRemedy));
  if (claim.rank && !claim.size)
    throw UsageError(
        fmt::format("{} means one of several processes, but {} is not set, so this process "
                    "would run alone; {}, {}",
                    to_text(*claim.rank), launcher.size.front(), launcher.start_remedy, kAloneRemedy));
}

/// Throws if this process runs in a Slurm batch script or an allocation's shell with several tasks or nodes. Only one
/// process runs there, although the user probably wants one for each task. `launcher` is Slurm's entry.
void reject_lone_process_in_allocation(Environment environment, const LauncherEntry& launcher) {
  const auto job_id = find_first_set(environment, launcher.required_any);
  if (!job_id || launcher.has_started_process(environment)) return;
  auto count = read_number(environment, {"SLURM_NTASKS", "SLURM_NPROCS"}, 1);
  std::string_view unit = "tasks";
  if (!count) {
    count = read_number(environment, {"SLURM_JOB_NUM_NODES", "SLURM_NNODES"}, 1);
    unit = "nodes";
  }
  if (!count || count->value == 1) return;
  throw UsageError(fmt::format(
      "{} means that the Slurm job {} has {} {}, but srun did not start this process, so it would "
      "run alone; {}, {}",
      to_text(*count), printable_value(job_id->text), count->value, unit, launcher.start_remedy, kAloneRemedy));
}

/// Removes the claims for which `is_outer` is true, except the claim of `inner`. Adds a note for each removed claim
/// that has another rank or size.
template <class IsOuter>
void drop_outer_claims(const LauncherEntry& inner, IsOuter is_outer, std::vector<LauncherClaim>& claims,
                       std::vector<std::string>& notes) {
  const LauncherClaim inner_claim = *std::ranges::find(claims, &inner, &LauncherClaim::launcher);
  std::erase_if(claims, [&](const LauncherClaim& claim) {
    if (claim.launcher == &inner || !is_outer(claim)) return false;
    if (!claim.agrees_with(inner_claim))
      notes.push_back(
          fmt::format("{} started these processes within {}; the variables of the outer launcher count its daemons "
                      "and are ignored",
                      inner.title, claim.launcher->title));
    return true;
  });
}

bool is_daemon_of(const LauncherEntry& launcher, const Ancestor& ancestor) {
  return std::ranges::find(launcher.daemons, ancestor.command) != launcher.daemons.end();
}

/// Removes claims of outer launchers, which started only the agents or daemons of an inner launcher. For example, a
/// Slurm task may be an agent of torchrun or a daemon of mpirun.
void drop_outer_launchers(Environment environment, Ancestors (*ancestors)(), std::vector<LauncherClaim>& claims,
                          std::vector<std::string>& notes) {
  // An outer launcher starts the agents of an inner launcher, and these agents start the processes. So a launcher is
  // the outer one if its number of processes equals the number of agents.
  for (const LauncherEntry& entry : launcher_table()) {
    const bool has_claim = std::ranges::find(claims, &entry, &LauncherClaim::launcher) != claims.end();
    if (!entry.agent_count || !has_claim) continue;
    const auto agents = read_number(environment, {entry.agent_count}, 1);
    if (!agents) continue;
    const auto starts_agents = [&](const LauncherClaim& claim) { return claim.size->value == agents->value; };
    drop_outer_claims(entry, starts_agents, claims, notes);
  }
  // Several launchers may have daemons, such as mpirun in a Slurm step. The launcher with the nearest daemon among the
  // ancestors started this process.
  const auto has_daemon = [](const LauncherClaim& claim) { return !claim.launcher->daemons.empty(); };
  if (std::ranges::count_if(claims, has_daemon) < 2) return;
  for (const Ancestor& ancestor : ancestors())
    for (const LauncherClaim& claim : claims)
      if (is_daemon_of(*claim.launcher, ancestor)) return drop_outer_claims(*claim.launcher, has_daemon, claims, notes);
}

/// Returns the claim of the launcher that BUSBW_LAUNCHER names. Throws UsageError if that launcher gives no rank and
/// size.
LauncherClaim require_claim_of(Environment environment, std::string_view launcher_name) {
  const LauncherEntry& launcher = *find_launcher(launcher_name);
  const LauncherClaim claim = read_claim(environment, launcher);
  if (claim.is_complete()) return claim;
  require_complete(claim);
  if (launcher.has_started_process) reject_lone_process_in_allocation(environment, launcher);
  throw UsageError(fmt::format("{}={}, but {} and {} do not give the rank and size of this process; {}, {}", kLauncher,
                               printable_value(launcher_name), launcher.rank.front(), launcher.size.front(),
                               launcher.start_remedy, kAloneRemedy));
}

/// Throws UsageError if two of `claims`, or BUSBW_SIZE and the claims, contradict each other.
void require_agreement(Environment environment, const std::vector<LauncherClaim>& claims) {
  const LauncherClaim& first = claims.front();
  for (const LauncherClaim& claim : claims)
    if (!claim.agrees_with(first))
      throw UsageError(
          fmt::format("{} and {} contradict each other; set BUSBW_LAUNCHER={} or BUSBW_LAUNCHER={}, whichever "
                      "started this process, {}",
                      to_text(first), to_text(claim), first.launcher->name, claim.launcher->name, kAloneRemedy));
  // BUSBW_SIZE without BUSBW_RANK is not used, but a contradiction is probably a mistake.
  if (const auto size = read_number(environment, {"BUSBW_SIZE"}, 1); size && size->value != first.size->value)
    throw UsageError(fmt::format("{} and {} contradict each other; unset BUSBW_SIZE, or also set BUSBW_RANK",
                                 to_text(*size), to_text(first)));
}

/// Returns the claim that counts, or nothing if this process is alone.
std::optional<LauncherClaim> select_claim(Environment environment, Ancestors (*ancestors)(),
                                          std::vector<std::string>& notes) {
  if (const auto launcher_name = environment(kLauncher)) {
    if (*launcher_name == kNone) return std::nullopt;
    return require_claim_of(environment, *launcher_name);
  }
  std::vector<LauncherClaim> complete;
  std::vector<LauncherClaim> partial;
  for (const LauncherEntry& entry : launcher_table()) {
    const LauncherClaim claim = read_claim(environment, entry);
    auto& claims = claim.is_complete() ? complete : partial;
    claims.push_back(claim);
  }
  // BUSBW_ variables are meant for this program, so they override those of other launchers.
  if (!complete.empty() && complete.front().launcher->name == "busbw") return complete.front();

  std::vector<LauncherClaim> candidates;
  std::ranges::copy_if(complete, std::back_inserter(candidates), &LauncherClaim::has_several_processes);
  if (candidates.empty()) {
    if (!complete.empty()) return complete.front();
    for (const LauncherClaim& claim : partial) {
      require_complete(claim);
      if (claim.launcher->has_started_process) reject_lone_process_in_allocation(environment, *claim.launcher);
    }
    return std::nullopt;
  }
  drop_outer_launchers(environment, ancestors, candidates, notes);
  require_agreement(environment, candidates);
  return candidates.front();
}

/// Returns a text that identifies the job among the launcher's jobs. Empty if the launcher gives the job no name.
std::string job_identity(Environment environment, const LauncherEntry& launcher) {
  std::string identity;
  for (const char* variable : launcher.identity)
    if (const auto setting = find_first_set(environment, {variable}); setting && setting->text != kTorchrunNone)
      identity += fmt::format("-{}", setting->text);
  return identity.empty() ? identity : std::string(launcher.name) + identity;
}

/// Returns a text that identifies a job on one node by the name and process ID of the launcher's daemon. Empty if this
/// process has no such ancestor.
std::string daemon_identity(const LauncherEntry& launcher, Ancestors (*ancestors)()) {
  for (const Ancestor& ancestor : ancestors())
    if (is_daemon_of(launcher, ancestor)) return fmt::format("{}-{}-{}", launcher.name, ancestor.command, ancestor.pid);
  return {};
}

/// Address of process 0, and the identity of the job.
struct JobAddress {
  StoreAddress store;
  std::string identity;  // job_identity or daemon_identity; empty if unknown
};

/// Returns the hosts at which process 0 may listen, from the launcher's variables. Empty if these do not name a host.
std::vector<std::string> find_hosts(Environment environment, const LauncherClaim& claim,
                                    std::optional<int> local_size) {
  std::vector<std::string> hosts;
  if (claim.launcher->hosts_from) {
    hosts = claim.launcher->hosts_from(environment);
  } else if (const auto host = find_first_set(environment, claim.launcher->host)) {
    hosts = {require_host(host->text, host->variable)};
  }
  // PyTorchJob sets MASTER_ADDR=localhost for process 0, while the other processes connect from other nodes.
  const bool is_localhost = hosts == std::vector<std::string>{"localhost"};
  const bool has_processes_elsewhere =
      local_size ? local_size != claim.size->value : environment("KUBERNETES_SERVICE_HOST").has_value();
  if (is_localhost && has_processes_elsewhere && claim.rank->value == 0) return {"0.0.0.0"};
  return hosts;
}

/// Returns the address from BUSBW_RENDEZVOUS or from the launcher's variables. Throws UsageError if no address is
/// known.
JobAddress find_job_address(Environment environment, const LauncherClaim& claim, std::optional<int> local_size,
                            Ancestors (*ancestors)()) {
  const LauncherEntry& launcher = *claim.launcher;
  std::string identity = job_identity(environment, launcher);
  if (const auto text = environment(kRendezvous)) return {parse_store_address(*text), identity};

  const std::vector<std::string> hosts = find_hosts(environment, claim, local_size);
  const bool on_one_node = local_size == claim.size->value;
  if (on_one_node && !launcher.daemons.empty()) {
    if (identity.empty()) identity = daemon_identity(launcher, ancestors);
    if (!identity.empty()) {
      const int port = launcher.port_from ? launcher.port_from(environment) : derived_port(fnv1a(identity));
      return {TcpStoreAddress{{"127.0.0.1"}, port}, identity};
    }
  }
  if (!hosts.empty() && launcher.port_from) return {TcpStoreAddress{hosts, launcher.port_from(environment)}, identity};
  if (launcher.store_from)
    if (const auto store = launcher.store_from(environment)) return {LauncherStoreChoice{*store}, identity};
  throw UsageError(fmt::format("{} means {} processes, but the address of process 0 is unknown; {}",
                               to_text(*claim.size), claim.size->value, launcher.start_remedy));
}

/// Returns the number of processes on this node, or nothing if the launcher does not state the number.
std::optional<int> find_local_size(Environment environment, const LauncherEntry& launcher) {
  if (launcher.local_size_from) return launcher.local_size_from(environment);
  const auto size = read_number(environment, launcher.local_size, 1);
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

/// Sets rank, size, node and hosts of this process. Returns the number of processes on this node as find_local_size().
std::optional<int> read_process(Environment environment, const LauncherClaim& claim, World& world) {
  const LauncherEntry& launcher = *claim.launcher;
  world.launcher = launcher.name;
  world.rank = claim.rank->value;
  world.size = claim.size->value;
  if (world.size == 1) return std::nullopt;
  const auto local_size = find_local_size(environment, launcher);
  const auto local_rank = read_number(environment, launcher.local_rank);
  world.local_rank = local_rank ? local_rank->value : 0;
  world.local_size = local_size.value_or(world.local_rank + 1);
  if (world.local_rank >= world.local_size || world.local_size > world.size)
    throw UsageError(
        fmt::format("{} of {} processes on this node and {} in the job ({}): allowed are at most as many "
                    "processes on a node as in the job, counted from 0",
                    local_rank ? to_text(*local_rank) : "process 0", world.local_size, world.size, launcher.title));
  if (const auto node = read_number(environment, launcher.node)) world.node = node->value;
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
    const auto store = environment(kRendezvous);
    if (store && environment(kLauncher) != kNone)
      throw UsageError(
          fmt::format("{}={} is set, but the rank and the number of processes are not, so this process "
                      "would run alone; set BUSBW_RANK and BUSBW_SIZE, {}",
                      kRendezvous, printable_value(*store), kAloneRemedy));
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
