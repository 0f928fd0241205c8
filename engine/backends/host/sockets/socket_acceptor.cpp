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

/// However many knock, the peers that are here already get their turn.
constexpr int kMaxAtOnce = 64;

/// IPv4's loopback, or IPv6's where a host has no IPv4.
Descriptor listen_on_loopback() {
  try {
    return listen_at(endpoint_of("127.0.0.1", 0));
  } catch (const EnvironmentError&) {
    return listen_at(endpoint_of("::1", 0));
  }
}

}  // namespace

SocketAcceptor::SocketAcceptor(int rank, ListenScope where)
    : rank_(rank),
      listener_(where == ListenScope::this_host ? listen_on_loopback() : listen_everywhere(0)),
      door_(new_listener_credentials(static_cast<std::uint16_t>(local_endpoint(listener_).port()))) {}

void SocketAcceptor::add_interests(std::vector<pollfd>& interests) const {
  interests.push_back({listener_.number(), POLLIN, 0});
  for (const PendingConnection& visitor : visitors_) interests.push_back({visitor.connection.number(), POLLIN, 0});
}

void SocketAcceptor::proceed(std::span<const pollfd> polled) {
  std::vector<PendingConnection> staying;
  for (std::size_t i = 0; i < visitors_.size(); ++i) {
    const bool silent = polled[i + 1].revents == 0;  // the listener is the first
    if (silent || receive(visitors_[i]) == Disposition::stays) staying.push_back(std::move(visitors_[i]));
  }
  visitors_ = std::move(staying);
  if (polled[0].revents != 0) accept_pending();
}

void SocketAcceptor::tick() {
  shut_out_ +=
      std::erase_if(visitors_, [](PendingConnection& visitor) { return visitor.rank < 0 && ++visitor.ticks >= kGreetingLimitTicks; });
}

void SocketAcceptor::accept_pending() {
  for (int turn = 0; turn < kMaxAtOnce; ++turn) {
    Descriptor connection(accept4(listener_.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!connection.is_open()) {
      const int error = errno;
      if (error == EINTR || error == ECONNABORTED) continue;
      if (error != EMFILE && error != ENFILE) return;
      // Strangers must not take the descriptors away from those who belong here.
      if (visitors_.empty()) throw_out_of_descriptors(error);
      reject_oldest();
      continue;
    }
    set_nonblocking_nodelay(connection);
    if (visitors_.size() >= static_cast<std::size_t>(rank_) + kMaxPendingConnections) reject_oldest();
    PendingConnection visitor;
    visitor.connection = std::move(connection);
    if (receive(visitor) == Disposition::stays) visitors_.push_back(std::move(visitor));
  }
}

SocketAcceptor::Disposition SocketAcceptor::receive(PendingConnection& visitor) {
  const bool greeted = visitor.rank >= 0;
  // Not a byte more than belongs here: data may follow at once.
  std::byte confirmation{};
  std::byte* const into = greeted ? &confirmation : visitor.said.data() + visitor.said_bytes;
  const std::size_t room = greeted ? 1 : visitor.said.size() - visitor.said_bytes;
  const ssize_t got = recv(visitor.connection.number(), into, room, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Disposition::stays;
  if (got <= 0 || (greeted && confirmation != kConfirmation)) {
    ++shut_out_;
    return Disposition::goes;
  }
  if (greeted) {
    guests_.push_back({visitor.rank, std::move(visitor.connection)});
    return Disposition::goes;
  }
  visitor.said_bytes += static_cast<std::size_t>(got);
  return visitor.said_bytes < visitor.said.size() ? Disposition::stays : answer(visitor);
}

SocketAcceptor::Disposition SocketAcceptor::answer(PendingConnection& visitor) {
  const auto greeting = decode_connect_request(visitor.said);
  const bool right = greeting && greeting->to == rank_ && greeting->from >= 0 && greeting->from < rank_ &&
                     constant_time_equal(greeting->secret, door_.secret);
  const auto& word = door_.answer;
  // A new connection has room for so little.
  if (!right ||
      send(visitor.connection.number(), word.data(), word.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(word.size())) {
    ++shut_out_;
    return Disposition::goes;
  }
  visitor.rank = greeting->from;
  return Disposition::stays;
}

void SocketAcceptor::reject_oldest() {
  // Who has greeted rightly stays as long as there is anybody else.
  auto first = std::ranges::find_if(visitors_, [](const PendingConnection& visitor) { return visitor.rank < 0; });
  if (first == visitors_.end()) first = visitors_.begin();
  visitors_.erase(first);
  ++shut_out_;
}

}  // namespace busbw
