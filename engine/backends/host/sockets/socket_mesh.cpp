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
#include "backends/host/team_gather.hpp"
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

SocketMesh::SocketMesh(Team& group, int world_rank, std::span<const Interface> ours)
    : ours_(ours.begin(), ours.end()), rank_(group.rank()), connections_(static_cast<std::size_t>(group.size())) {
  const PeerInfo mine{world_rank, host_name(), loopback_namespace_id(), ours_};
  for (const Bytes& theirs : all_gather_bytes(group, mine.encoded())) members_.push_back(decode_peer_info(theirs));

  SocketAcceptor visitors(rank_, all_on_this_host(members_) ? ListenScope::this_host : ListenScope::every_where);
  std::vector<ListenerCredentials> doors;
  for (const Bytes& theirs : all_gather_bytes(group, visitors.door().encoded())) doors.push_back(decode_listener_credentials(theirs));
  connect_all(group, visitors, doors);
}

void SocketMesh::connect_all(const Team& group, SocketAcceptor& visitors, std::span<const ListenerCredentials> doors) {
  const PeerInfo& mine = members_[static_cast<std::size_t>(rank_)];
  std::vector<SocketConnector> callers;
  for (int peer = rank_ + 1; peer < size(); ++peer) {
    const auto index = static_cast<std::size_t>(peer);
    const PeerInfo& theirs = members_[index];
    callers.emplace_back(candidate_addresses(theirs.interfaces, ours_, theirs.same_host(mine)), doors[index], rank_, peer);
  }

  const Ticker ticker;
  std::vector<pollfd> polled;
  const auto waited_for = [&] {
    return !callers.empty() || !std::ranges::all_of(connections_.begin(), connections_.begin() + rank_,
                                                    [](const Descriptor& connection) { return connection.is_open(); });
  };
  while (waited_for()) {
    if (group.aborted()) throw JobAborted{};
    polled.assign({{ticker.number(), POLLIN, 0}});
    for (const SocketConnector& caller : callers) polled.push_back(caller.interest());
    visitors.add_interests(polled);
    if (poll(polled.data(), polled.size(), -1) <= 0) continue;  // a signal

    for (std::size_t i = 0; i < callers.size(); ++i)
      if (polled[i + 1].revents != 0) callers[i].on_ready();
    visitors.proceed(std::span(polled).subspan(1 + callers.size()));
    for (std::uint64_t ticks = ticker.take_elapsed(); ticks > 0; --ticks) {
      for (SocketConnector& caller : callers) caller.tick();
      visitors.tick();
    }

    for (auto& guest : visitors.take_accepted())
      connections_[static_cast<std::size_t>(guest.rank)] = std::move(guest.connection);
    std::erase_if(callers, [&](SocketConnector& caller) {
      if (caller.failed())
        throw EnvironmentError(
            fmt::format("cannot reach {} over TCP: {}; let the hosts connect to each other on all ports "
                        "(a firewall?), or name the interfaces to use by {}",
                        name_of(caller.to()), caller.tried(), kInterfacesVariable));
      if (!caller.connected()) return false;
      connections_[static_cast<std::size_t>(caller.to())] = caller.take_connection();
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

std::vector<Interface> SocketMesh::local_ends() const {
  std::vector<Interface> ends;
  for (const Descriptor& connection : connections_) {
    const auto end = connection.is_open() ? local_interface(connection, ours_) : std::nullopt;
    const auto same = [&](const Interface& other) { return end->address.host() == other.address.host(); };
    if (end && std::ranges::none_of(ends, same)) ends.push_back(*end);
  }
  return ends;
}

}  // namespace busbw
