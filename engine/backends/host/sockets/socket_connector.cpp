// States of an attempt: connecting, then waiting for the answer. A failed attempt goes on with the next address.
#include "backends/host/sockets/socket_connector.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/support/constant_time_equal.hpp"
#include "common/support/error.hpp"

namespace busbw {

SocketConnector::SocketConnector(const std::vector<Endpoint>& addresses, const ListenerCredentials& credentials,
                                 int from, int to)
    : credentials_(credentials), request_{from, to, credentials.secret} {
  for (const Endpoint& address : addresses)
    attempts_.push_back({endpoint_of(address.host(), credentials.port), "not tried"});
  if (attempts_.size() == 1) ++round_;  // skip the short first round
  try_next_address();
}

pollfd SocketConnector::interest() const {
  return {connection_.number(), static_cast<short>(state_ == State::connecting ? POLLOUT : POLLIN), 0};
}

void SocketConnector::on_ready() {
  if (state_ == State::connecting) {
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(connection_.number(), SOL_SOCKET, SO_ERROR, &error, &length);
    error == 0 ? send_request() : fail_attempt(std::strerror(error));
  } else if (state_ == State::awaiting_answer) {
    receive_answer();
  }
}

void SocketConnector::tick() {
  ++ticks_;
  if (state_ == State::pausing && ticks_ >= kPauseTicks) try_next_address();
  if (state_ == State::connecting && ticks_ >= kConnectTicks[round_]) {
    // After a pause of this process, several ticks arrive at once. Check whether the connection was established
    // meanwhile.
    pollfd polled = interest();
    poll(&polled, 1, 0) > 0 ? on_ready() : fail_attempt("no answer");
  }
  if (state_ == State::awaiting_answer && ticks_ >= kAnswerTicks) fail_attempt("connected, but no answer");
}

std::string SocketConnector::attempts_text() const {
  if (attempts_.empty()) return "no address to try";
  std::string text;
  for (const ConnectAttempt& attempt : attempts_)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", attempt.endpoint.text(), attempt.outcome);
  return text;
}

/// Tries the next address and skips addresses that fail at once. After the last address comes a pause, then the next
/// round.
void SocketConnector::try_next_address() {
  for (; next_address_ < attempts_.size(); ++next_address_) {
    const Endpoint& target = attempts_[next_address_].endpoint;
    connection_ = Descriptor(socket(target.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!connection_.is_open() && (errno == EMFILE || errno == ENFILE)) throw_out_of_descriptors(errno);
    ticks_ = 0;
    received_bytes_ = 0;
    state_ = State::connecting;
    if (connection_.is_open()) {
      const auto* const address = reinterpret_cast<const sockaddr*>(&target.address);
      if (connect(connection_.number(), address, target.length) == 0) return send_request();
      if (errno == EINPROGRESS) return;
    }
    attempts_[next_address_].outcome = std::strerror(errno);
  }
  connection_.close();
  next_address_ = 0;
  ticks_ = 0;
  state_ = attempts_.empty() || ++round_ == kConnectTicks.size() ? State::failed : State::pausing;
}

void SocketConnector::fail_attempt(std::string outcome) {
  attempts_[next_address_].outcome = std::move(outcome);
  ++next_address_;
  try_next_address();
}

void SocketConnector::send_request() {
  set_nonblocking_nodelay(connection_);
  const auto request = request_.encoded();
  const ssize_t sent = send(connection_.number(), request.data(), request.size(), MSG_NOSIGNAL);
  // The send buffer of a new connection has space for these few bytes.
  if (sent != static_cast<ssize_t>(request.size())) return fail_attempt("closed the connection at once");
  state_ = State::awaiting_answer;
  ticks_ = 0;
}

void SocketConnector::receive_answer() {
  const ssize_t bytes =
      recv(connection_.number(), answer_.data() + received_bytes_, answer_.size() - received_bytes_, 0);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (bytes < 0) return fail_attempt(std::strerror(errno));
  if (bytes == 0) return fail_attempt("closed the connection");
  received_bytes_ += static_cast<std::size_t>(bytes);
  if (received_bytes_ < answer_.size()) return;
  if (!constant_time_equal(answer_, credentials_.answer)) return fail_attempt("the answer is not from this job");
  if (send(connection_.number(), &kConfirmation, 1, MSG_NOSIGNAL) != 1) return fail_attempt("closed the connection");
  state_ = State::connected;
}

void throw_out_of_descriptors(int error) {
  throw EnvironmentError(
      fmt::format("cannot open a socket: {}; every rank needs a connection to every other rank: "
                  "raise the limit on open files (ulimit -n), or use fewer ranks",
                  std::strerror(error)));
}

}  // namespace busbw
