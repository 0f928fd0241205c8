// Connects every rank of a group with every other one. Each rank connects to higher ranks, while a thread accepts the
// connections of lower ranks.
#include "backends/host/sockets/socket_mesh.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <iterator>
#include <system_error>
#include <utility>

#include "backends/host/sockets/socket_acceptor.hpp"
#include "backends/host/sockets/socket_addresses.hpp"
#include "backends/host/sockets/socket_connector.hpp"
#include "common/os/provenance.hpp"
#include "common/os/ticker.hpp"
#include "common/support/error.hpp"
#include "rendezvous/team/wait.hpp"

namespace busbw {
namespace {

/// Minimum time to connect to a peer, if other peers have used up the limit.
constexpr double kMinConnectS = 1;
/// Maximum time to connect to all peers, as a multiple of the limit. It is shorter than -T, so that a rank that
/// connects does not count as hanging.
constexpr double kMaxConnectLimits = 1.5;

/// The time to connect to a peer has passed.
struct ConnectTimeout {};

bool is_loopback(const Interface& interface) { return interface.address.is_loopback(); }

bool all_on_this_host(const std::vector<PeerInfo>& members) {
  return std::ranges::all_of(members, [&](const PeerInfo& member) {
    return member.shares_loopback_with(members.front()) && std::ranges::any_of(member.interfaces, is_loopback);
  });
}

}  // namespace

SocketMesh::SocketMesh(Team& group, int world_rank, std::span<const Interface> own_interfaces,
                       const std::string& pinned_interface)
    : SocketMesh(group.rank(), group.size(), own_interfaces, pinned_interface) {
  members_[static_cast<std::size_t>(rank_)].world_rank = world_rank;
  connect(group, std::nullopt);
}

SocketMesh::SocketMesh(int rank, int ranks, std::span<const Interface> own_interfaces,
                       const std::string& pinned_interface)
    : own_interfaces_(own_interfaces.begin(), own_interfaces.end()),
      pinned_interface_(pinned_interface),
      rank_(rank),
      members_(static_cast<std::size_t>(ranks)),
      connections_(static_cast<std::size_t>(ranks)) {
  for (int number = 0; number < ranks; ++number) {
    PeerInfo& member = members_[static_cast<std::size_t>(number)];
    member.rank = member.world_rank = number;
  }
}

void SocketMesh::reconnect(Team& living, double limit_s) {
  for (Descriptor& connection : connections_) connection = Descriptor();
  connect(living, limit_s);
}

void SocketMesh::connect(Team& group, std::optional<double> limit_s) {
  // Entry i belongs to rank i of `group`, here and in the gathered lists below. Empty if the rank is lost.
  const std::vector<std::optional<int>> ranks_in_communicator = exchange_information(group);
  std::vector<PeerInfo> living;
  for (const auto& rank : ranks_in_communicator)
    if (rank) living.push_back(members_[static_cast<std::size_t>(*rank)]);
  SocketAcceptor acceptor(rank_, all_on_this_host(living) ? ListenScope::this_host : ListenScope::all_addresses);
  const auto listeners = all_gather_values(group, Listener{acceptor.port(), acceptor.token()});
  std::vector<int> lower_ranks;
  std::map<int, Listener> higher_ranks;
  for (std::size_t i = 0; i < listeners.size(); ++i) {
    const std::optional<int> peer = ranks_in_communicator[i];
    if (!peer || listeners[i].port == 0 || unreachable_.contains(*peer)) continue;
    if (*peer < rank_) lower_ranks.push_back(*peer);
    if (*peer > rank_) higher_ranks.emplace(*peer, listeners[i]);
  }

  // Ranks accept all the time. So no rank waits for a rank that itself waits for an unreachable one.
  std::atomic<bool> should_stop = false;
  std::future<void> accepting;  // not valid if there is no lower rank
  try {
    if (!lower_ranks.empty())
      accepting =
          std::async(std::launch::async, [&] { accept_lower_ranks(acceptor, group, lower_ranks, should_stop); });
  } catch (const std::system_error& error) {
    throw EnvironmentError(
        fmt::format("cannot start a thread that accepts connections: {}; raise the limits on threads (ulimit -u, pids "
                    "of the cgroup)",
                    error.what()));
  }
  std::vector<std::vector<int>> unreached_ranks;  // those that each rank of `group` could not reach
  try {
    const std::vector<int> own_unreached_ranks = connect_to_higher_ranks(higher_ranks, group, limit_s);
    // Without a limit, a lower rank that cannot connect aborts the job, which ends this wait.
    if (!limit_s && accepting.valid()) accepting.get();
    // The exchange is also a barrier. Without it, a rank could send data right after the last frame of a handshake. The
    // channel of the peer that reads the frame would also read that data, and lose it.
    // Ranks exchange only numbers. With the reasons, every rank would receive the texts of all unreachable pairs.
    unreached_ranks = all_gather_values(group, own_unreached_ranks);
  } catch (...) {
    should_stop = true;  // the destructor of `accepting` waits for its thread
    throw;
  }
  should_stop = true;
  if (accepting.valid()) accepting.get();
  // If two ranks have no connection, both note it.
  for (std::size_t i = 0; i < unreached_ranks.size(); ++i)
    if (ranks_in_communicator[i] && std::ranges::find(unreached_ranks[i], rank_) != unreached_ranks[i].end())
      note_missing_connection(*ranks_in_communicator[i]);
  for (const int peer : lower_ranks)
    if (connection(peer) < 0) note_missing_connection(peer);
  // This rank may have accepted a connection that its peer gave up.
  for (const auto& [peer, reason] : unreachable_) connections_[static_cast<std::size_t>(peer)] = Descriptor();
}

/// Notes a lower rank that did not connect to this one.
void SocketMesh::note_missing_connection(int peer) {
  unreachable_.emplace(peer, fmt::format("{} did not connect", name_of(peer)));
}

std::vector<std::optional<int>> SocketMesh::exchange_information(Team& group) {
  PeerInfo& own_info = members_[static_cast<std::size_t>(rank_)];
  own_info = {own_info.world_rank, host_name(), loopback_namespace_id(), own_interfaces_, rank_};
  std::vector<std::optional<int>> ranks;
  for (PeerInfo& info : all_gather_values(group, own_info)) {
    ranks.emplace_back();
    if (info.host.empty()) continue;
    if (info.rank < 0 || info.rank >= size()) throw BrokenMessage();
    ranks.back() = info.rank;
    members_[static_cast<std::size_t>(info.rank)] = std::move(info);
  }
  return ranks;
}

bool SocketMesh::is_on_this_host(int peer) const {
  return members_[static_cast<std::size_t>(peer)].shares_loopback_with(members_[static_cast<std::size_t>(rank_)]);
}

void SocketMesh::accept_lower_ranks(SocketAcceptor& acceptor, const Team& group, const std::vector<int>& lower_ranks,
                                    const std::atomic<bool>& should_stop) {
  const auto is_connected = [&](int peer) { return connection(peer) >= 0; };
  while (!should_stop && !std::ranges::all_of(lower_ranks, is_connected)) {
    throw_if_aborted(group);
    for (auto& accepted : acceptor.serve()) {
      const bool is_pinned = !pinned_interface_.empty() && !is_on_this_host(accepted.rank);
      if (is_pinned) bind_to_interface(accepted.connection, pinned_interface_);
      connections_[static_cast<std::size_t>(accepted.rank)] = std::move(accepted.connection);
    }
  }
}

std::vector<int> SocketMesh::connect_to_higher_ranks(const std::map<int, Listener>& listeners, const Team& group,
                                                     std::optional<double> limit_s) {
  std::vector<int> unreached_ranks;
  // Networks over which an earlier peer could not be reached. They are tried last, because a failed attempt takes long.
  std::vector<Interface> unreachable_networks;
  std::optional<TickLimit> limit, limit_of_all;
  if (limit_s) {
    limit.emplace(*limit_s);
    limit_of_all.emplace(kMaxConnectLimits * *limit_s);
  }
  for (const auto& [peer, listener] : listeners) {
    const std::vector<Interface>& interfaces = members_[static_cast<std::size_t>(peer)].interfaces;
    auto addresses = candidate_addresses(interfaces, own_interfaces_, is_on_this_host(peer), unreachable_networks);
    for (Endpoint& address : addresses) address = endpoint_of(address.host(), listener.port);
    TickLimit min_time(kMinConnectS);
    const auto check_time = [&] {
      throw_if_aborted(group);
      const bool is_late = limit && limit->has_passed();
      if (is_late && (min_time.has_passed() || limit_of_all->has_passed())) throw ConnectTimeout{};
    };
    ConnectResult connected;
    try {
      connected = connect_to_rank(addresses, listener.token, rank_, check_time, pinned_interface_);
    } catch (const ConnectTimeout&) {
      connected.message = fmt::format("no connection within {:g} s", *limit_s);
    }
    if (!connected.socket.is_open()) {
      const std::string message = fmt::format(
          "cannot reach {} over TCP: {}; open all ports between the hosts in the firewall, or set {} to the interfaces "
          "to use",
          name_of(peer), connected.message, kInterfacesVariable);
      if (!limit) throw EnvironmentError(message);
      unreachable_.emplace(peer, message);
      unreached_ranks.push_back(peer);
      continue;
    }
    if (const auto reached = remote_endpoint(connected.socket))
      std::ranges::copy(unreachable_interfaces(interfaces, addresses, *reached),
                        std::back_inserter(unreachable_networks));
    connections_[static_cast<std::size_t>(peer)] = std::move(connected.socket);
  }
  return unreached_ranks;
}

std::vector<int> SocketMesh::world_ranks() const {
  std::vector<int> ranks;
  for (const PeerInfo& member : members_) ranks.push_back(member.world_rank);
  return ranks;
}

std::string SocketMesh::name_of(int peer) const {
  const PeerInfo& member = members_[static_cast<std::size_t>(peer)];
  return fmt::format("rank {} on host {}", member.world_rank, member.host);
}

std::vector<Interface> SocketMesh::used_interfaces() const {
  std::vector<Interface> used_interfaces;
  for (const Descriptor& connection : connections_) {
    if (!connection.is_open()) continue;  // this rank itself, or a rank without a connection
    const auto interface = local_interface(connection, own_interfaces_);
    if (interface) add_unless_known(used_interfaces, *interface);
  }
  return used_interfaces;
}

}  // namespace busbw
