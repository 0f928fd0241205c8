#include "backends/host/sockets/socket_mesh.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backends/host/sockets/socket_acceptor.hpp"
#include "backends/host/sockets/socket_addresses.hpp"
#include "backends/host/sockets/socket_connector.hpp"
#include "common/os/provenance.hpp"
#include "common/os/ticker.hpp"
#include "common/support/error.hpp"

namespace busbw {
namespace {

bool is_loopback(const Interface& interface) { return interface.address.is_loopback(); }

bool all_on_this_host(const std::vector<PeerInfo>& members) {
  return std::ranges::all_of(members, [&](const PeerInfo& member) {
    return member.same_host(members.front()) && std::ranges::any_of(member.interfaces, is_loopback);
  });
}

}  // namespace

SocketMesh::SocketMesh(Team& group, int world_rank, std::span<const Interface> own_interfaces)
    : own_interfaces_(own_interfaces.begin(), own_interfaces.end()),
      rank_(group.rank()),
      connections_(static_cast<std::size_t>(group.size())) {
  const PeerInfo own_info{world_rank, host_name(), loopback_namespace_id(), own_interfaces_};
  for (const Bytes& encoded : all_gather_values(group, own_info.encoded()))
    members_.push_back(decode_peer_info(encoded));

  SocketAcceptor acceptor(rank_, all_on_this_host(members_) ? ListenScope::this_host : ListenScope::all_addresses);
  connect_all(group, acceptor, all_gather_values(group, acceptor.credentials()));
}

void SocketMesh::connect_all(const Team& group, SocketAcceptor& acceptor,
                             std::span<const ListenerCredentials> credentials) {
  const PeerInfo& own_info = members_[static_cast<std::size_t>(rank_)];
  std::vector<SocketConnector> connectors;
  for (int peer = rank_ + 1; peer < size(); ++peer) {
    const auto index = static_cast<std::size_t>(peer);
    const PeerInfo& peer_info = members_[index];
    connectors.emplace_back(candidate_addresses(peer_info.interfaces, own_interfaces_, peer_info.same_host(own_info)),
                            credentials[index], rank_, peer);
  }

  const Ticker ticker;
  std::vector<pollfd> polled;
  // Accepted connections belong to lower ranks, connectors to higher ones.
  const auto is_incomplete = [&] {
    return !connectors.empty() ||
           !std::ranges::all_of(connections_.begin(), connections_.begin() + rank_,
                                [](const Descriptor& connection) { return connection.is_open(); });
  };
  while (is_incomplete()) {
    if (group.aborted()) throw JobAborted{};
    polled.assign({{ticker.number(), POLLIN, 0}});  // then the connectors, then the acceptor
    for (const SocketConnector& connector : connectors) polled.push_back(connector.interest());
    acceptor.add_interests(polled);
    if (poll(polled.data(), polled.size(), -1) <= 0) continue;  // interrupted by a signal

    for (std::size_t i = 0; i < connectors.size(); ++i)
      if (polled[i + 1].revents != 0) connectors[i].on_ready();
    acceptor.on_ready(std::span(polled).subspan(1 + connectors.size()));
    for (std::uint64_t ticks = ticker.take_elapsed(); ticks > 0; --ticks) {
      for (SocketConnector& connector : connectors) connector.tick();
      acceptor.tick();
    }

    for (auto& accepted : acceptor.take_accepted())
      connections_[static_cast<std::size_t>(accepted.rank)] = std::move(accepted.connection);
    std::erase_if(connectors, [&](SocketConnector& connector) {
      if (connector.failed())
        throw EnvironmentError(
            fmt::format("cannot reach {} over TCP: {}; open all ports between the hosts in the firewall, "
                        "or set {} to the interfaces to use",
                        name_of(connector.to()), connector.attempts_text(), kInterfacesVariable));
      if (!connector.connected()) return false;
      connections_[static_cast<std::size_t>(connector.to())] = connector.take_connection();
      return true;
    });
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
    const auto interface = connection.is_open() ? local_interface(connection, own_interfaces_) : std::nullopt;
    const auto has_same_address = [&](const Interface& used) {
      return interface->address.host() == used.address.host();
    };
    if (interface && std::ranges::none_of(used_interfaces, has_same_address)) used_interfaces.push_back(*interface);
  }
  return used_interfaces;
}

}  // namespace busbw
