#pragma once
// TCP connections between every two ranks of a communicator. SocketCommunicator owns the mesh of its rank.
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "backends/host/sockets/peer_info.hpp"
#include "common/os/network.hpp"
#include "rendezvous/team/team.hpp"

namespace busbw {

class SocketAcceptor;

/// Environment variable with a comma list of prefixes of interface names; see select_interfaces.
inline constexpr std::string_view kInterfacesVariable = "BUSBW_SOCKET_IFNAME";

/// One rank's connections: nonblocking, without delay for small messages (TCP_NODELAY), not encrypted. The destructor
/// closes them.
class SocketMesh {
 public:
  /// Connects all ranks of `group`; every member calls it. Each rank listens, accepts the lower ranks and then connects
  /// to the higher ones. `own_interfaces`: interfaces of this host. Throws EnvironmentError if a rank cannot be
  /// reached. The message has the rank, its host, the tried addresses and the remedy. Throws JobAborted if the team is
  /// aborted.
  /// `pinned_interface`: the only interface for connections to other hosts; empty: any.
  SocketMesh(Team& group, int world_rank, std::span<const Interface> own_interfaces,
             const std::string& pinned_interface = {});

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  /// Descriptor of the connection to a rank of the communicator. Negative for this rank itself.
  int connection(int peer) const { return connections_[static_cast<std::size_t>(peer)].number(); }
  /// World rank of each rank of the communicator.
  std::vector<int> world_ranks() const;
  /// "rank 3 on host node07"
  std::string name_of(int peer) const;
  /// Local interfaces that the connections use, without duplicates.
  std::vector<Interface> used_interfaces() const;

 private:
  /// Address of a rank's listener without the host, and the token that the listener requires.
  struct Listener {
    int port = 0;
    std::string token;

    static auto members(auto& self) { return std::tie(self.port, self.token); }
  };

  bool is_on_this_host(int peer) const;
  void accept_lower_ranks(SocketAcceptor& acceptor, const Team& group, const std::string& pinned_interface);
  /// `listeners`: of all ranks of the group.
  void connect_to_higher_ranks(std::span<const Listener> listeners, const Team& group,
                               const std::string& pinned_interface);

  std::vector<Interface> own_interfaces_;
  int rank_;
  std::vector<PeerInfo> members_;
  std::vector<Descriptor> connections_;
};

}  // namespace busbw
