// Connects every rank of a group with every other one. Each rank accepts connections of lower ranks, then connects to
// higher ranks.
#include "backends/host/sockets/socket_mesh.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "backends/host/sockets/socket_acceptor.hpp"
#include "backends/host/sockets/socket_addresses.hpp"
#include "backends/host/sockets/socket_connector.hpp"
#include "common/os/provenance.hpp"
#include "common/support/error.hpp"

namespace busbw {
namespace {

void throw_if_aborted(const Team& group) {
  if (group.aborted()) throw JobAborted{};
}

bool is_loopback(const Interface& interface) { return interface.address.is_loopback(); }

bool all_on_this_host(const std::vector<PeerInfo>& members) {
  return std::ranges::all_of(members, [&](const PeerInfo& member) {
    return member.shares_loopback_with(members.front()) && std::ranges::any_of(member.interfaces, is_loopback);
  });
}

}  // namespace

SocketMesh::SocketMesh(Team& group, int world_rank, std::span<const Interface> own_interfaces,
                       const std::string& pinned_interface)
    : own_interfaces_(own_interfaces.begin(), own_interfaces.end()),
      rank_(group.rank()),
      connections_(static_cast<std::size_t>(group.size())) {
  const PeerInfo own_info{world_rank, host_name(), loopback_namespace_id(), own_interfaces_};
  for (const Bytes& encoded : all_gather_values(group, own_info.encoded()))
    members_.push_back(decode_peer_info(encoded));

  std::vector<Listener> listeners;
  {
    SocketAcceptor acceptor(rank_, all_on_this_host(members_) ? ListenScope::this_host : ListenScope::all_addresses);
    listeners = all_gather_values(group, Listener{acceptor.port(), acceptor.token()});
    // No deadlock: rank 0 has no lower rank to accept. After ranks 0 to r have connected to their higher ranks, rank
    // r + 1 has accepted all its lower ranks, and connects as well.
    accept_lower_ranks(acceptor, group, pinned_interface);
  }
  connect_to_higher_ranks(listeners, group, pinned_interface);
  // Without this barrier, a rank could send data right after the last frame of a handshake. The channel of the peer
  // that reads the frame would also read that data, and lose it.
  group.barrier();
}

bool SocketMesh::is_on_this_host(int peer) const {
  return members_[static_cast<std::size_t>(peer)].shares_loopback_with(members_[static_cast<std::size_t>(rank_)]);
}

void SocketMesh::accept_lower_ranks(SocketAcceptor& acceptor, const Team& group, const std::string& pinned_interface) {
  const auto lower_ranks = std::span(connections_).first(static_cast<std::size_t>(rank_));
  while (!std::ranges::all_of(lower_ranks, &Descriptor::is_open)) {
    throw_if_aborted(group);
    for (auto& accepted : acceptor.serve()) {
      const bool is_pinned = !pinned_interface.empty() && !is_on_this_host(accepted.rank);
      if (is_pinned) bind_to_interface(accepted.connection, pinned_interface);
      connections_[static_cast<std::size_t>(accepted.rank)] = std::move(accepted.connection);
    }
  }
}

void SocketMesh::connect_to_higher_ranks(std::span<const Listener> listeners, const Team& group,
                                         const std::string& pinned_interface) {
  // Networks over which an earlier peer could not be reached. They are tried last, because a failed attempt takes long.
  std::vector<Interface> unreachable;
  for (int peer = rank_ + 1; peer < size(); ++peer) {
    const auto index = static_cast<std::size_t>(peer);
    const std::vector<Interface>& interfaces = members_[index].interfaces;
    auto addresses = candidate_addresses(interfaces, own_interfaces_, is_on_this_host(peer), unreachable);
    for (Endpoint& address : addresses) address = endpoint_of(address.host(), listeners[index].port);
    ConnectResult connected =
        connect_to_rank(addresses, listeners[index].token, rank_, [&] { throw_if_aborted(group); }, pinned_interface);
    if (!connected.socket.is_open())
      throw EnvironmentError(
          fmt::format("cannot reach {} over TCP: {}; open all ports between the hosts in the firewall, "
                      "or set {} to the interfaces to use",
                      name_of(peer), connected.message, kInterfacesVariable));
    if (const auto reached = remote_endpoint(connected.socket))
      std::ranges::copy(unreachable_interfaces(interfaces, addresses, *reached), std::back_inserter(unreachable));
    connections_[index] = std::move(connected.socket);
  }
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
    if (!connection.is_open()) continue;  // this rank itself
    const auto interface = local_interface(connection, own_interfaces_);
    if (interface) add_unless_known(used_interfaces, *interface);
  }
  return used_interfaces;
}

}  // namespace busbw
