#include "backends/host/sockets/socket_connector.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/support/constant_time_equal.hpp"
#include "common/support/error.hpp"

namespace busbw {

SocketConnector::SocketConnector(const std::vector<Endpoint>& addresses, const ListenerCredentials& door, int from, int to)
    : door_(door), greeting_{from, to, door.secret} {
  for (const Endpoint& address : addresses) tries_.push_back({endpoint_of(address.host(), door.port), "not tried"});
  if (tries_.size() == 1) ++round_;
  call();
}

pollfd SocketConnector::interest() const {
  return {connection_.number(), static_cast<short>(state_ == State::connecting ? POLLOUT : POLLIN), 0};
}

void SocketConnector::on_ready() {
  if (state_ == State::connecting) {
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(connection_.number(), SOL_SOCKET, SO_ERROR, &error, &length);
    error == 0 ? greet() : give_up(std::strerror(error));
  } else if (state_ == State::waiting) {
    hear();
  }
}

void SocketConnector::tick() {
  ++ticks_;
  if (state_ == State::pausing && ticks_ >= kPauseTicks) call();
  if (state_ == State::connecting && ticks_ >= kConnectTicks[round_]) {
    // The ticks of a process that had no turn meanwhile come all at once.
    pollfd made = interest();
    poll(&made, 1, 0) > 0 ? on_ready() : give_up("no answer");
  }
  if (state_ == State::waiting && ticks_ >= kAnswerTicks) give_up("connected, but no answer");
}

std::string SocketConnector::tried() const {
  if (tries_.empty()) return "it has no address to try";
  std::string text;
  for (const ConnectAttempt& tried : tries_)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", tried.endpoint.text(), tried.outcome);
  return text;
}

/// Tries the next address; those that fail at once are passed over. After the last one comes a pause, then another
/// round.
void SocketConnector::call() {
  for (; next_ < tries_.size(); ++next_) {
    const Endpoint& to = tries_[next_].endpoint;
    connection_ = Descriptor(socket(to.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!connection_.is_open() && (errno == EMFILE || errno == ENFILE)) throw_out_of_descriptors(errno);
    ticks_ = 0;
    heard_bytes_ = 0;
    state_ = State::connecting;
    if (connection_.is_open()) {
      const auto* const address = reinterpret_cast<const sockaddr*>(&to.address);
      if (connect(connection_.number(), address, to.length) == 0) return greet();
      if (errno == EINPROGRESS) return;
    }
    tries_[next_].outcome = std::strerror(errno);
  }
  connection_.close();
  next_ = 0;
  ticks_ = 0;
  state_ = tries_.empty() || ++round_ == kConnectTicks.size() ? State::failed : State::pausing;
}

void SocketConnector::give_up(std::string outcome) {
  tries_[next_].outcome = std::move(outcome);
  ++next_;
  call();
}

void SocketConnector::greet() {
  set_nonblocking_nodelay(connection_);
  const auto greeting = greeting_.encoded();
  const ssize_t sent = send(connection_.number(), greeting.data(), greeting.size(), MSG_NOSIGNAL);
  // A new connection has room for so little.
  if (sent != static_cast<ssize_t>(greeting.size())) return give_up("closed the connection at once");
  state_ = State::waiting;
  ticks_ = 0;
}

void SocketConnector::hear() {
  const ssize_t got = recv(connection_.number(), answer_.data() + heard_bytes_, answer_.size() - heard_bytes_, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got < 0) return give_up(std::strerror(errno));
  if (got == 0) return give_up("closed the connection");
  heard_bytes_ += static_cast<std::size_t>(got);
  if (heard_bytes_ < answer_.size()) return;
  if (!constant_time_equal(answer_, door_.answer)) return give_up("something else answers there");
  if (send(connection_.number(), &kConfirmation, 1, MSG_NOSIGNAL) != 1) return give_up("closed the connection");
  state_ = State::connected;
}

void throw_out_of_descriptors(int error) {
  throw EnvironmentError(
      fmt::format("no socket for another connection: {}; every rank is connected to every other one, "
                  "so raise the limit on open files (ulimit -n), or use fewer ranks",
                  std::strerror(error)));
}

}  // namespace busbw
