// Handshake of one connection: receive the request, check its secret, answer, receive the confirmation.
#include "backends/host/sockets/socket_acceptor.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "backends/host/sockets/socket_connector.hpp"
#include "common/os/network.hpp"
#include "common/support/constant_time_equal.hpp"
#include "common/support/error.hpp"

namespace busbw {
namespace {

/// Maximum number of accepts per call, so that pending connections are served as well.
constexpr int kMaxAcceptsPerCall = 64;

/// Listens on IPv4 loopback, or on IPv6 loopback if the host has no IPv4.
Descriptor listen_on_loopback() {
  try {
    return listen_at(endpoint_of("127.0.0.1", 0));
  } catch (const EnvironmentError&) {
    return listen_at(endpoint_of("::1", 0));
  }
}

}  // namespace

SocketAcceptor::SocketAcceptor(int rank, ListenScope scope)
    : rank_(rank),
      listener_(scope == ListenScope::this_host ? listen_on_loopback() : listen_everywhere(0)),
      credentials_(new_listener_credentials(static_cast<std::uint16_t>(local_endpoint(listener_).port()))) {}

void SocketAcceptor::add_interests(std::vector<pollfd>& interests) const {
  interests.push_back({listener_.number(), POLLIN, 0});
  for (const PendingConnection& pending : pending_) interests.push_back({pending.connection.number(), POLLIN, 0});
}

void SocketAcceptor::on_ready(std::span<const pollfd> polled) {
  std::vector<PendingConnection> still_pending;
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    const bool is_idle = polled[i + 1].revents == 0;  // entry 0 is the listener
    if (is_idle || receive_bytes(pending_[i]) == Disposition::keep) still_pending.push_back(std::move(pending_[i]));
  }
  pending_ = std::move(still_pending);
  if (polled[0].revents != 0) accept_pending();
}

void SocketAcceptor::tick() {
  rejected_ += std::erase_if(
      pending_, [](PendingConnection& pending) { return pending.rank < 0 && ++pending.ticks >= kRequestLimitTicks; });
}

void SocketAcceptor::accept_pending() {
  for (int accepts = 0; accepts < kMaxAcceptsPerCall; ++accepts) {
    Descriptor connection(accept4(listener_.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!connection.is_open()) {
      const int error = errno;
      if (error == EINTR || error == ECONNABORTED) continue;
      if (error != EMFILE && error != ENFILE) return;
      // Unauthenticated connections must not use up the descriptors that this job's ranks need.
      if (pending_.empty()) throw_out_of_descriptors(error);
      reject_oldest();
      continue;
    }
    set_nonblocking_nodelay(connection);
    if (pending_.size() >= static_cast<std::size_t>(rank_) + kMaxPendingConnections) reject_oldest();
    PendingConnection pending;
    pending.connection = std::move(connection);
    if (receive_bytes(pending) == Disposition::keep) pending_.push_back(std::move(pending));
  }
}

SocketAcceptor::Disposition SocketAcceptor::receive_bytes(PendingConnection& pending) {
  const bool is_answered = pending.rank >= 0;  // the request was valid, and only the confirmation is missing
  // Read no byte beyond the handshake, because the peer's data may follow at once.
  std::byte confirmation{};
  std::byte* const target = is_answered ? &confirmation : pending.received.data() + pending.received_bytes;
  const std::size_t missing_bytes = is_answered ? 1 : pending.received.size() - pending.received_bytes;
  const ssize_t bytes = recv(pending.connection.number(), target, missing_bytes, 0);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return Disposition::keep;
  if (bytes <= 0 || (is_answered && confirmation != kConfirmation)) {
    ++rejected_;
    return Disposition::remove;
  }
  if (is_answered) {
    accepted_.push_back({pending.rank, std::move(pending.connection)});
    return Disposition::remove;
  }
  pending.received_bytes += static_cast<std::size_t>(bytes);
  return pending.received_bytes < pending.received.size() ? Disposition::keep : answer_request(pending);
}

SocketAcceptor::Disposition SocketAcceptor::answer_request(PendingConnection& pending) {
  const auto request = decode_connect_request(pending.received);
  const bool is_valid = request && request->to == rank_ && request->from >= 0 && request->from < rank_ &&
                        constant_time_equal(request->secret, credentials_.secret);
  const auto& answer = credentials_.answer;
  // The send buffer of a new connection has space for these few bytes.
  if (!is_valid || send(pending.connection.number(), answer.data(), answer.size(), MSG_NOSIGNAL) !=
                       static_cast<ssize_t>(answer.size())) {
    ++rejected_;
    return Disposition::remove;
  }
  pending.rank = request->from;
  return Disposition::keep;
}

void SocketAcceptor::reject_oldest() {
  // Reject the oldest unauthenticated connection, or the oldest of all if all are authenticated.
  auto oldest = std::ranges::find_if(pending_, [](const PendingConnection& pending) { return pending.rank < 0; });
  if (oldest == pending_.end()) oldest = pending_.begin();
  pending_.erase(oldest);
  ++rejected_;
}

}  // namespace busbw
