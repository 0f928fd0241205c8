#pragma once
// Accepts the connections that lower ranks make to this rank and rejects all others. The handshake is that of the
// rendezvous store (rendezvous/channel/handshake.hpp), with a token of this listener.
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/os/ticker.hpp"
#include "rendezvous/channel/handshake.hpp"
#include "rendezvous/channel/tcp_channel.hpp"

namespace busbw {

/// Addresses at which an acceptor listens.
enum class ListenScope {
  this_host,      // on loopback only: all ranks are on this host
  all_addresses,  // on all addresses, IPv6 and IPv4
};

/// A listening socket and its pending connections: those that have not proved that they know the token. An invalid
/// frame is rejected at once, an unfinished handshake after a time limit. If too many connections are pending, or no
/// descriptor is free, the oldest is rejected.
class SocketAcceptor {
 public:
  static constexpr int kHandshakeLimitTicks = 5 * kTicksPerS;
  /// Maximum number of pending connections, in addition to one for each lower rank.
  static constexpr std::size_t kMaxPendingConnections = 64;

  /// Listens for the ranks below `rank`. Throws EnvironmentError if the system refuses.
  SocketAcceptor(int rank, ListenScope scope, std::size_t handshake_limit_ticks = kHandshakeLimitTicks);

  int port() const { return local_endpoint(listener_).port(); }
  /// Secret of this listener. The team, which is authenticated, carries it to the lower ranks.
  const std::string& token() const { return token_; }

  /// An authenticated connection of another rank. The rank sends no data before all ranks are connected.
  struct AcceptedConnection {
    int rank = 0;
    Descriptor connection;
  };
  /// Serves all connections once, after a wait of at most one tick. Returns those that were accepted.
  std::vector<AcceptedConnection> serve();
  /// Number of connections so far that were rejected or closed early by the peer.
  std::size_t rejected() const { return rejected_; }
  std::size_t pending() const { return pending_.size(); }

 private:
  struct PendingConnection {
    TcpChannel channel;
    std::optional<ServerHandshake> handshake = {};  // none before the peer's hello
    std::size_t ticks = 0;
  };

  void accept_connections();
  void reject_oldest();
  std::optional<int> authenticate(PendingConnection& pending) const;

  int rank_;
  std::size_t handshake_limit_ticks_;
  Descriptor listener_;
  std::string token_;
  Ticker ticker_;
  std::vector<PendingConnection> pending_;  // in the order of arrival
  std::size_t rejected_ = 0;
};

}  // namespace busbw
