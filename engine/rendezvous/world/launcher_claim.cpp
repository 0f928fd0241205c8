// Reads the claims of all launchers: rank and size in their variables. Removes the claims of outer launchers, and
// requires that the remaining claims agree.
#include "rendezvous/world/launcher_claim.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "common/support/error.hpp"
#include "common/support/printable.hpp"

namespace busbw {
namespace {

std::string to_text(const LauncherClaim& claim) {
  return fmt::format("{} {} ({})", to_text(*claim.rank), to_text(*claim.size), claim.launcher->title);
}

/// Returns the claim of a launcher. Rank and size are missing if the launcher did not start this process.
LauncherClaim read_claim(Environment environment, const LauncherEntry& launcher) {
  LauncherClaim claim{&launcher, {}, {}};
  if (!find_first_set(environment, launcher.required_any)) return claim;
  if (launcher.has_started_process && !launcher.has_started_process(environment)) return claim;
  claim.rank = read_whole_number(environment, launcher.rank);
  claim.size = read_whole_number(environment, launcher.size, 1);
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
  throw UsageError(
      fmt::format("{}={}: allowed are {}and {}", kLauncherVariable, printable_value(name), names, kNoLauncher));
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
  auto count = read_whole_number(environment, {"SLURM_NTASKS", "SLURM_NPROCS"}, 1);
  std::string_view unit = "tasks";
  if (!count) {
    count = read_whole_number(environment, {"SLURM_JOB_NUM_NODES", "SLURM_NNODES"}, 1);
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

/// Removes claims of outer launchers, which started only the agents or daemons of an inner launcher. For example, a
/// Slurm task may be an agent of torchrun or a daemon of mpirun.
void drop_outer_launchers(Environment environment, Ancestors (*ancestors)(), std::vector<LauncherClaim>& claims,
                          std::vector<std::string>& notes) {
  // An outer launcher starts the agents of an inner launcher, and these agents start the processes. So a launcher is
  // the outer one if its number of processes equals the number of agents.
  for (const LauncherEntry& entry : launcher_table()) {
    const bool has_claim = std::ranges::find(claims, &entry, &LauncherClaim::launcher) != claims.end();
    if (!entry.agent_count || !has_claim) continue;
    const auto agents = read_whole_number(environment, {entry.agent_count}, 1);
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
  throw UsageError(fmt::format("{}={}, but {} and {} do not give the rank and size of this process; {}, {}",
                               kLauncherVariable, printable_value(launcher_name), launcher.rank.front(),
                               launcher.size.front(), launcher.start_remedy, kAloneRemedy));
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
  if (const auto size = read_whole_number(environment, {"BUSBW_SIZE"}, 1); size && size->value != first.size->value)
    throw UsageError(fmt::format("{} and {} contradict each other; unset BUSBW_SIZE, or also set BUSBW_RANK",
                                 to_text(*size), to_text(first)));
}

}  // namespace

bool is_daemon_of(const LauncherEntry& launcher, const Ancestor& ancestor) {
  return std::ranges::find(launcher.daemons, ancestor.command) != launcher.daemons.end();
}

std::optional<LauncherClaim> select_claim(Environment environment, Ancestors (*ancestors)(),
                                          std::vector<std::string>& notes) {
  if (const auto launcher_name = environment(kLauncherVariable)) {
    if (*launcher_name == kNoLauncher) return std::nullopt;
    return require_claim_of(environment, *launcher_name);
  }
  std::vector<LauncherClaim> complete;
  std::vector<LauncherClaim> incomplete;
  for (const LauncherEntry& entry : launcher_table()) {
    const LauncherClaim claim = read_claim(environment, entry);
    auto& claims = claim.is_complete() ? complete : incomplete;
    claims.push_back(claim);
  }
  // BUSBW_ variables are meant for this program, so they override those of other launchers.
  const auto is_of_busbw = [](const LauncherClaim& claim) { return claim.launcher->name == "busbw"; };
  if (const auto claim = std::ranges::find_if(complete, is_of_busbw); claim != complete.end()) return *claim;

  std::vector<LauncherClaim> candidates;
  std::ranges::copy_if(complete, std::back_inserter(candidates), &LauncherClaim::has_several_processes);
  if (candidates.empty()) {
    if (!complete.empty()) return complete.front();  // a job of one process
    for (const LauncherClaim& claim : incomplete) {
      require_complete(claim);
      if (claim.launcher->has_started_process) reject_lone_process_in_allocation(environment, *claim.launcher);
    }
    return std::nullopt;
  }
  drop_outer_launchers(environment, ancestors, candidates, notes);
  require_agreement(environment, candidates);
  return candidates.front();
}

}  // namespace busbw
