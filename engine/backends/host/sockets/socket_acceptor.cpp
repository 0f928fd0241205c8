// Accepts connections of lower ranks and authenticates each with the listener's token. Handshakes of several
// connections proceed at the same time.
#include "backends/host/sockets/socket_acceptor.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "common/os/random_bytes.hpp"
#include "common/support/error.hpp"

namespace busbw {
namespace {

/// Maximum number of accepts per call, so that pending connections are served as well.
constexpr int kMaxAcceptsPerCall = 64;
constexpr std::size_t kTokenBytes = 16;

/// Listens on IPv4 loopback, or on IPv6 loopback if the host has no IPv4.
Descriptor listen_on_loopback() {
  try {
    return listen_at(endpoint_of("127.0.0.1", 0));
  } catch (const EnvironmentError&) {
    return listen_at(endpoint_of("::1", 0));
  }
}

}  // namespace

SocketAcceptor::SocketAcceptor(int rank, ListenScope scope, std::size_t handshake_limit_ticks)
    : rank_(rank),
      handshake_limit_ticks_(handshake_limit_ticks),
      listener_(scope == ListenScope::this_host ? listen_on_loopback() : listen_everywhere(0)),
      token_(kTokenBytes, '\0') {
  fill_randomly(std::as_writable_bytes(std::span(token_)));
}

std::vector<SocketAcceptor::AcceptedConnection> SocketAcceptor::serve() {
  std::vector<pollfd> polled{{ticker_.number(), POLLIN, 0}, {listener_.number(), POLLIN, 0}};
  for (const PendingConnection& pending : pending_) polled.push_back({pending.channel.descriptor(), POLLIN, 0});
  poll(polled.data(), polled.size(), -1);
  const std::size_t elapsed_ticks = ticker_.take_elapsed();
  std::vector<AcceptedConnection> accepted;
  // Removes the connections that are now accepted or rejected.
  std::erase_if(pending_, [&](PendingConnection& pending) {
    bool is_rejected = false;
    try {
      if (const auto peer = authenticate(pending)) {
        accepted.push_back({*peer, pending.channel.take_socket()});
        return true;
      }
      pending.ticks += elapsed_ticks;
      is_rejected = pending.channel.ended() || pending.ticks >= handshake_limit_ticks_;
    } catch (const BrokenMessage&) {
      is_rejected = true;
    }
    if (is_rejected) ++rejected_;
    return is_rejected;
  });
  // Pending connections are read before this call, because a new connection may remove the oldest one.
  accept_connections();
  return accepted;
}

void SocketAcceptor::accept_connections() {
  for (int accepts = 0; accepts < kMaxAcceptsPerCall; ++accepts) {
    Descriptor connection(accept4(listener_.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (connection.is_open()) {
      set_nonblocking_nodelay(connection);
      pending_.push_back({TcpChannel(std::move(connection), kMaxGreetingBytes)});
      if (pending_.size() > static_cast<std::size_t>(rank_) + kMaxPendingConnections) reject_oldest();
      continue;
    }
    const int error = errno;
    if (error == EINTR || error == ECONNABORTED) continue;
    if (error != EMFILE && error != ENFILE) return;
    // Unauthenticated connections must not use up the descriptors that this job's ranks need.
    if (pending_.empty()) throw_out_of_descriptors(error);
    reject_oldest();
  }
}

void SocketAcceptor::reject_oldest() {
  pending_.erase(pending_.begin());
  ++rejected_;
}

/// Handles the frames that have arrived. Returns the peer's rank if it is authenticated. Throws BrokenMessage if the
/// connection does not come from a lower rank.
std::optional<int> SocketAcceptor::authenticate(PendingConnection& pending) const {
  while (const auto frame = pending.channel.receive(0)) {
    const FrameKind expected_kind = pending.handshake ? FrameKind::greeting : FrameKind::hello;
    if (frame->kind != expected_kind) throw BrokenMessage();
    if (!pending.handshake) {
      pending.handshake.emplace(frame->body);
      pending.channel.send(FrameKind::challenge, pending.handshake->challenge());
      continue;
    }
    // Ranks use the handshake of processes: `client.process` is the peer's rank.
    const auto [client, knows_token] = pending.handshake->read_greeting(token_, frame->body);
    if (!knows_token || client.process < 0 || client.process >= rank_) throw BrokenMessage();
    pending.channel.send(FrameKind::welcome, pending.handshake->welcome(token_, {}));
    return client.process;
  }
  return std::nullopt;
}

}  // namespace busbw
