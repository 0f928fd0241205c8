#include "backends/mpi/mpi_engine.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "backends/mpi/mpi_backend.hpp"
#include "backends/mpi/mpi_session.hpp"
#include "common/os/network.hpp"
#include "common/support/error.hpp"
#include "rendezvous/world/token.hpp"
#include "values/message.hpp"

namespace busbw {
namespace {

/// The world according to a launcher's variables, or nothing if they are inconsistent: MPI is more reliable.
std::optional<World> world_from_variables(Environment environment) {
  try {
    return detect_process(environment);
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

/// Throws if MPI reports one process but the launcher's variables report several: each process would measure alone.
void require_alone(Environment environment) {
  const World from_variables = detect_process(environment);
  if (from_variables.size > 1)
    throw UsageError(fmt::format(
        "{} has started {} processes, but MPI connects this one to no other, so each would run alone; start it "
        "with the mpirun of the MPI that busbw-engine-mpi was built with, or with srun --mpi=pmix or "
        "--mpi=pmi2, or set BUSBW_LAUNCHER=none to run alone on purpose",
        from_variables.launcher, from_variables.size));
}

/// Addresses at which other processes reach this one, and a free port.
TcpStoreAddress own_address(const MpiWorld& place) {
  TcpStoreAddress address;
  address.port = local_endpoint(listen_everywhere(0)).port();
  if (place.local_size == place.size) {
    address.hosts = {"127.0.0.1"};
    return address;
  }
  for (const Interface& one : interfaces())
    if (!one.address.is_loopback()) address.hosts.push_back(one.address.host());
  if (address.hosts.empty())
    throw EnvironmentError(
        "this host has no address but loopback, so processes on other hosts cannot reach process 0; give "
        "it a network");
  return address;
}

/// Broadcasts process 0's bytes to all processes.
Bytes broadcast(const Bytes& message) {
  std::uint64_t bytes = message.size();
  require_mpi(MPI_Bcast(&bytes, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD), "MPI_Bcast");
  Bytes all = message;
  all.resize(bytes);
  require_mpi(MPI_Bcast(all.data(), mpi_count(bytes), MPI_BYTE, 0, MPI_COMM_WORLD), "MPI_Bcast");
  return all;
}

}  // namespace

World join_mpi(char**, Environment environment) {
  const double limit_s = find_join_limit_s(environment);
  // Check for errors before MPI connects the processes.
  const std::string token = find_token(environment).value_or(random_token());
  if (const auto address = environment("BUSBW_RENDEZVOUS"))
    throw UsageError(
        fmt::format("BUSBW_RENDEZVOUS={}: with --backend mpi the processes learn over MPI where process 0 is; "
                    "unset it",
                    *address));
  const MpiWorld place = init_mpi(limit_s);
  World world;
  world.rank = place.rank;
  world.size = place.size;
  world.local_rank = place.local_rank;
  world.local_size = place.local_size;
  world.join_limit_s = limit_s;
  if (place.size == 1) {
    require_alone(environment);
    return world;
  }
  const auto from_variables = world_from_variables(environment);
  world.launcher = from_variables && from_variables->size == place.size ? from_variables->launcher : "mpi";
  if (from_variables) world.node = from_variables->node;

  MessageWriter message;
  if (place.rank == 0) {
    const TcpStoreAddress address = own_address(place);
    message.add(address.port).add(token).add(address.hosts.size());
    for (const std::string& host : address.hosts) message.add(host);
  }
  const Bytes from_first = broadcast(message.bytes());
  MessageReader reader(from_first);
  TcpStoreAddress store;
  store.port = reader.take<int>();
  world.token = reader.take_text();
  store.hosts.resize(reader.take<std::size_t>());
  for (std::string& host : store.hosts) host = reader.take_text();
  world.store = std::move(store);
  return world;
}

std::unique_ptr<Backend> make_mpi_backend(const World& world, const std::vector<std::string>& faults) {
  Faults parsed;
  for (const std::string& text : faults) {
    parsed.push_back(parse_fault(text));
    if (parsed.back().rank >= world.size)
      throw UsageError(fmt::format("--fault {}: allowed is a rank from 0 to {}", text, world.size - 1));
  }
  return std::make_unique<MpiBackend>(world.local_rank, std::move(parsed));
}

}  // namespace busbw
