#pragma once
// Accepts the connections that lower ranks make to this rank and rejects all others. socket_handshake.hpp describes the
// handshake. SocketMesh owns the acceptor while it connects all ranks.
#include <poll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "backends/host/sockets/socket_handshake.hpp"
#include "common/os/descriptor.hpp"

namespace busbw {

/// Addresses at which an acceptor listens.
enum class ListenScope {
  this_host,      // on loopback only: all ranks are on this host
  all_addresses,  // on all addresses, IPv6 and IPv4
};

/// A listening socket and its pending connections: those with an unfinished handshake. An invalid request is rejected
/// at once, a connection without a complete request after kRequestLimitTicks. If too many are pending, or no descriptor
/// is free, one is rejected: the oldest unauthenticated one, or else the oldest. No call blocks: the owner polls, and
/// calls `tick` ten times a second.
class SocketAcceptor {
 public:
  static constexpr int kRequestLimitTicks = 50;
  /// Maximum number of pending connections, in addition to one for each lower rank.
  static constexpr std::size_t kMaxPendingConnections = 64;

  /// Listens for the ranks below `rank`. Throws EnvironmentError if the system refuses.
  SocketAcceptor(int rank, ListenScope scope);

  const ListenerCredentials& credentials() const { return credentials_; }
  /// Appends the descriptors to poll. After the poll, pass the same entries to `on_ready`.
  void add_interests(std::vector<pollfd>& interests) const;
  void on_ready(std::span<const pollfd> polled);
  /// Counts time for the limit of connections without a complete request.
  void tick();

  /// An authenticated connection of another rank.
  struct AcceptedConnection {
    int rank = 0;
    Descriptor connection;
  };
  /// Returns the connections accepted since the last call.
  std::vector<AcceptedConnection> take_accepted() { return std::exchange(accepted_, {}); }
  /// Number of connections so far that were rejected or closed early by the peer.
  std::size_t rejected() const { return rejected_; }

 private:
  struct PendingConnection {
    Descriptor connection;
    ConnectRequest::Encoded received{};  // the request, as far as received
    std::size_t received_bytes = 0;
    int ticks = 0;  // without a complete request
    int rank = -1;  // of the peer in the communicator, after a valid request; -1 before
  };
  /// Decision whether a connection stays in `pending_`.
  enum class Disposition { keep, remove };

  void accept_pending();
  Disposition receive_bytes(PendingConnection& pending);
  Disposition answer_request(PendingConnection& pending);
  void reject_oldest();

  int rank_;
  Descriptor listener_;
  ListenerCredentials credentials_;
  std::vector<PendingConnection> pending_;  // in the order of arrival
  std::vector<AcceptedConnection> accepted_;
  std::size_t rejected_ = 0;
};

}  // namespace busbw
