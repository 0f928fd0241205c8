#pragma once
// The connections that others make to this rank: those of its job are let in, strangers are not.
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

/// Where it listens.
enum class ListenScope {
  this_host,    // on loopback: all ranks are here
  every_where,  // on all addresses, IPv6 and IPv4
};

/// A listening socket and those who came and did not yet show that they belong to the job. A stranger costs a
/// descriptor for a while: who says something wrong is shut out at once, who says nothing after kPatienceTicks, and
/// when there are too many the one who came first. Never blocks: its owner polls, and ticks ten times a second.
class SocketAcceptor {
 public:
  static constexpr int kGreetingLimitTicks = 50;
  /// Beside as many as there are ranks.
  static constexpr std::size_t kMaxPendingConnections = 64;

  /// Listens for the ranks below `rank`. Throws EnvironmentError where the system refuses.
  SocketAcceptor(int rank, ListenScope where);

  const ListenerCredentials& door() const { return door_; }
  /// Adds what to poll for; `proceed` is given the same entries after the poll.
  void add_interests(std::vector<pollfd>& interests) const;
  void proceed(std::span<const pollfd> polled);
  void tick();

  /// A connection of a rank that was let in.
  struct AcceptedConnection {
    int rank = 0;
    Descriptor connection;
  };
  /// Those let in since the last call.
  std::vector<AcceptedConnection> take_accepted() { return std::exchange(guests_, {}); }
  /// Strangers shut out so far.
  std::size_t rejected() const { return shut_out_; }

 private:
  struct PendingConnection {
    Descriptor connection;
    ConnectRequest::Encoded said{};
    std::size_t said_bytes = 0;
    int ticks = 0;
    int rank = -1;  // once the greeting was right
  };
  enum class Disposition { stays, goes };

  void accept_pending();
  Disposition receive(PendingConnection& visitor);
  Disposition answer(PendingConnection& visitor);
  void reject_oldest();

  int rank_;
  Descriptor listener_;
  ListenerCredentials door_;
  std::vector<PendingConnection> visitors_;  // the first came first
  std::vector<AcceptedConnection> guests_;
  std::size_t shut_out_ = 0;
};

}  // namespace busbw
