#pragma once
// TCP connections between every two ranks of a communicator. SocketCommunicator owns the mesh of its rank.
#include <atomic>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "common/os/network.hpp"
#include "rendezvous/team/team.hpp"

namespace busbw {

class SocketAcceptor;

/// Environment variable with a comma list of prefixes of interface names; see select_interfaces.
inline constexpr std::string_view kInterfacesVariable = "BUSBW_SOCKET_IFNAME";

/// Identity and location of a rank, which all ranks of a group exchange before they connect.
struct PeerInfo {
  int world_rank = 0;
  std::string host;  // empty if the rank was lost meanwhile
  /// Equal on ranks that share a loopback interface; empty if unknown (loopback_namespace_id in socket_addresses.hpp).
  std::string loopback_namespace;
  std::vector<Interface> interfaces;
  int rank = 0;  // in the communicator

  /// True if both ranks are known to reach each other over loopback. False for two containers of one host with separate
  /// networks.
  bool shares_loopback_with(const PeerInfo& other) const {
    return !loopback_namespace.empty() && loopback_namespace == other.loopback_namespace;
  }
  static auto members(auto& self) {
    return std::tie(self.world_rank, self.host, self.loopback_namespace, self.interfaces, self.rank);
  }
};

/// One rank's connections: nonblocking, without delay for small messages (TCP_NODELAY), not encrypted. The destructor
/// closes them.
class SocketMesh {
 public:
  /// Connects all ranks of `group`, which all call the constructor. `own_interfaces`: interfaces of this host, to which
  /// peers may connect. `pinned_interface`: the only interface for connections to other hosts; empty: any.
  ///
  /// Throws EnvironmentError if a rank cannot be reached. The message has the rank, its host, the tried addresses and
  /// the remedy. Throws JobAborted if the team is aborted.
  SocketMesh(Team& group, int world_rank, std::span<const Interface> own_interfaces,
             const std::string& pinned_interface = {});
  /// Makes a mesh of the job's ranks 0 to `ranks` - 1. It has no connections until `reconnect`.
  SocketMesh(int rank, int ranks, std::span<const Interface> own_interfaces, const std::string& pinned_interface = {});

  /// Replaces all connections by new ones between the ranks of `living`, which all call it. Takes up to 1.5 times
  /// `limit_s` if ranks do not answer. Two ranks that cannot reach each other stay unreachable for each other.
  void reconnect(Team& living, double limit_s);
  /// Ranks that were unreachable in a `reconnect`, with the reason. Only the lower rank of a pair knows the details.
  const std::map<int, std::string>& unreachable() const { return unreachable_; }

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  /// Descriptor of the connection to a rank of the communicator. Negative for this rank itself, and for a rank without
  /// a connection.
  int connection(int peer) const { return connections_[static_cast<std::size_t>(peer)].number(); }
  /// World rank of each rank of the communicator.
  std::vector<int> world_ranks() const;
  /// "rank 3 on host node07"
  std::string name_of(int peer) const;
  /// Local interfaces that the connections use, without duplicates.
  std::vector<Interface> used_interfaces() const;

 private:
  /// Address of a rank's listener without the host, and the token that the listener requires. Port 0: the rank is lost.
  struct Listener {
    int port = 0;
    std::string token;

    static auto members(auto& self) { return std::tie(self.port, self.token); }
  };

  /// Connects the ranks of `group`. If a rank cannot be reached: throws EnvironmentError without a limit, and adds the
  /// rank to `unreachable_` with a limit.
  void connect(Team& group, std::optional<double> limit_s);
  /// Exchanges the information of all ranks of `group`, and stores it in `members_`. Returns, for each rank of `group`,
  /// its rank in the communicator; nothing for a rank that was lost meanwhile.
  std::vector<std::optional<int>> exchange_information(Team& group);
  bool is_on_this_host(int peer) const;
  void note_missing_connection(int peer);
  /// Accepts connections of `lower_ranks` until all have one, or `should_stop` is set.
  void accept_lower_ranks(SocketAcceptor& acceptor, const Team& group, const std::vector<int>& lower_ranks,
                          const std::atomic<bool>& should_stop);
  /// Connects to the higher ranks. `listeners`: by rank in the communicator. Without a limit, throws EnvironmentError
  /// if a rank cannot be reached. With a limit, adds the rank to `unreachable_` and returns its number.
  std::vector<int> connect_to_higher_ranks(const std::map<int, Listener>& listeners, const Team& group,
                                           std::optional<double> limit_s);

  std::vector<Interface> own_interfaces_;
  std::string pinned_interface_;
  int rank_;
  std::vector<PeerInfo> members_;  // by rank; of a lost rank, the information from before its loss
  std::vector<Descriptor> connections_;  // by rank
  std::map<int, std::string> unreachable_;  // reason by rank
};

}  // namespace busbw
