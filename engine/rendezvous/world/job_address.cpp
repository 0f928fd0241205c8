// Derives the address of process 0 and the job's identity from BUSBW_RENDEZVOUS and the launcher's variables.
#include "rendezvous/world/job_address.hpp"

#include <fmt/format.h>

#include <vector>

#include "common/support/error.hpp"
#include "common/support/fnv1a.hpp"
#include "rendezvous/world/derived_port.hpp"

namespace busbw {
namespace {

constexpr std::string_view kTorchrunNone = "none";  // TORCHELASTIC_RUN_ID of a job without a name

/// Returns a text that identifies the job among the launcher's jobs. Empty if the launcher gives the job no name.
std::string job_identity(Environment environment, const LauncherEntry& launcher) {
  std::string identity;
  for (const char* variable : launcher.identity)
    if (const auto setting = find_first_set(environment, {variable}); setting && setting->text != kTorchrunNone)
      identity += fmt::format("-{}", setting->text);
  return identity.empty() ? identity : std::string(launcher.name) + identity;
}

/// Returns a text that identifies a job on one node by the launcher's daemon: "openmpi-prterun-4711". Empty if no
/// ancestor of this process is such a daemon.
std::string daemon_identity(const LauncherEntry& launcher, Ancestors (*ancestors)()) {
  for (const Ancestor& ancestor : ancestors())
    if (is_daemon_of(launcher, ancestor)) return fmt::format("{}-{}-{}", launcher.name, ancestor.command, ancestor.pid);
  return {};
}

/// Returns the hosts at which process 0 may listen, from the launcher's variables. Empty if these do not name a host.
std::vector<std::string> find_hosts(Environment environment, const LauncherClaim& claim,
                                    std::optional<int> local_size) {
  std::vector<std::string> hosts;
  if (claim.launcher->hosts_from) {
    hosts = claim.launcher->hosts_from(environment);
  } else if (const auto host = find_first_set(environment, claim.launcher->host)) {
    hosts = {require_host(host->text, host->variable)};
  }
  // PyTorchJob sets MASTER_ADDR=localhost for process 0, while the other processes connect from other nodes. So process
  // 0 must listen at all addresses.
  const bool is_localhost = hosts == std::vector<std::string>{"localhost"};
  const bool is_in_kubernetes = environment("KUBERNETES_SERVICE_HOST").has_value();
  // Without a known number of local processes, a job in Kubernetes may have one process per pod.
  const bool has_processes_elsewhere = local_size ? *local_size != claim.size->value : is_in_kubernetes;
  if (is_localhost && has_processes_elsewhere && claim.rank->value == 0) return {"0.0.0.0"};
  return hosts;
}

}  // namespace

JobAddress find_job_address(Environment environment, const LauncherClaim& claim, std::optional<int> local_size,
                            Ancestors (*ancestors)()) {
  const LauncherEntry& launcher = *claim.launcher;
  std::string identity = job_identity(environment, launcher);
  if (const auto text = environment(kRendezvousVariable)) return {parse_store_address(*text), identity};

  const std::vector<std::string> hosts = find_hosts(environment, claim, local_size);
  const bool is_on_one_node = local_size == claim.size->value;
  // A launcher with daemons may state no address, and loopback suffices on one node. The identity is the launcher's
  // name of the job, or else its daemon. Without a port from the launcher, all processes derive it from the identity.
  // Launchers without daemons state the address in their variables.
  if (is_on_one_node && !launcher.daemons.empty()) {
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

}  // namespace busbw
