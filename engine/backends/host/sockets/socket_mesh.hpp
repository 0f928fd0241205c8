#pragma once
// A connection between every two ranks of a communicator.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/host/sockets/socket_handshake.hpp"
#include "common/os/network.hpp"
#include "rendezvous/team/team.hpp"

namespace busbw {

/// The variable that holds the comma list of prefixes of interface names; see chosen_interfaces.
inline constexpr std::string_view kInterfacesVariable = "BUSBW_SOCKET_IFNAME";

/// One rank's connections, nonblocking, without delay of small messages. They close with it. What goes over them is not
/// encrypted.
class SocketMesh {
 public:
  /// Listens, tells the others where, is called by the lower ranks and calls the higher ones. Called by all members of
  /// `group`. `ours`: this host's interfaces. Throws EnvironmentError where a rank cannot be reached, naming it, its
  /// host, what was tried and the remedy; Aborted once the team is.
  SocketMesh(Team& group, int world_rank, std::span<const Interface> ours);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  /// The connection to a rank of the communicator; negative for this rank itself.
  int connection(int peer) const { return connections_[static_cast<std::size_t>(peer)].number(); }
  std::vector<int> world_ranks() const;
  /// "rank 3 on host node07"
  std::string name_of(int peer) const;
  /// This host's ends of the connections, each once.
  std::vector<Interface> local_ends() const;

 private:
  void connect_all(const Team& group, class SocketAcceptor& visitors, std::span<const ListenerCredentials> doors);

  std::vector<Interface> ours_;
  int rank_;
  std::vector<PeerInfo> members_;
  std::vector<Descriptor> connections_;
};

}  // namespace busbw
