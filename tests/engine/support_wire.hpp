#pragma once
// Sockets of tests: what a stranger or a stand-in does at the store's port.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "rendezvous/tcp_channel.hpp"
#include "rendezvous/tcp_wire.hpp"
#include "support/network.hpp"

namespace busbw::test {

inline constexpr int kPatienceMs = 60'000;  // a guard against hangs

inline Endpoint loopback(int port = 0) { return endpoint_of("127.0.0.1", port); }

inline Bytes bytes_of(std::string_view text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

inline std::string text_of(const Bytes& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// A port that nobody listens at; the next who asks for any gets another one.
inline int free_port() { return local_endpoint(listen_at(loopback())).port(); }

inline Descriptor connected_to(const Endpoint& where) {
  Connected connected = connect_to(where, kPatienceMs / kTickMs, [] { return false; });
  REQUIRE_MESSAGE(connected.socket.is_open(), connected.why);
  return std::move(connected.socket);
}

/// Someone who connects and says what he likes.
class Stranger {
 public:
  explicit Stranger(const Endpoint& where) : socket_(connected_to(where)) {}

  /// As much as the other side takes before it closes; whether that was all.
  bool say(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EAGAIN) {
        pollfd waiting{socket_.number(), POLLOUT, 0};
        if (poll(&waiting, 1, kPatienceMs) <= 0) return false;
        continue;
      }
      if (sent <= 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
    return true;
  }
  bool say(std::string_view text) { return say(bytes_of(text)); }
  bool say(Frame kind, std::span<const std::byte> body) {
    Bytes frame;
    append_frame(frame, kind, body);
    return say(frame);
  }
  /// All that comes until the other side closes the connection.
  std::optional<Bytes> hear_to_the_end() {
    Bytes all;
    std::byte part[4096];
    for (;;) {
      pollfd waiting{socket_.number(), POLLIN, 0};
      if (poll(&waiting, 1, kPatienceMs) <= 0) return std::nullopt;
      const ssize_t got = recv(socket_.number(), part, sizeof part, 0);
      if (got < 0 && errno == EAGAIN) continue;
      if (got <= 0) return all;
      all.insert(all.end(), part, part + got);
    }
  }
  bool is_turned_away() { return hear_to_the_end().has_value(); }
  /// Ends the connection without a farewell: a reset.
  void reset() {
    const linger at_once{1, 0};
    setsockopt(socket_.number(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    socket_.close();
  }
  const Descriptor& socket() const { return socket_; }

 private:
  Descriptor socket_;
};

/// The next frame that is not `skipped`.
inline std::optional<TcpChannel::Received> next_frame(TcpChannel& channel, std::optional<Frame> skipped = {}) {
  for (int tick = 0; tick < kPatienceMs / kTickMs && !channel.ended(); ++tick) {
    auto received = channel.receive(kTickMs);
    if (received && received->kind != skipped) return received;
  }
  return std::nullopt;
}

/// What the store says to a greeting.
inline std::pair<TcpChannel, std::optional<TcpChannel::Received>> greet(const Endpoint& where,
                                                                        const Greeting& greeting) {
  TcpChannel channel(connected_to(where));
  channel.send(Frame::greeting, greeting.packed());
  auto received = next_frame(channel);
  return {std::move(channel), std::move(received)};
}

/// A connection that the store has welcomed.
inline TcpChannel welcomed(const Endpoint& where, const Greeting& greeting) {
  auto [channel, received] = greet(where, greeting);
  REQUIRE(received.has_value());
  REQUIRE(received->kind == Frame::welcome);
  return std::move(channel);
}

/// Exit code and sentence with which the store refuses a greeting.
inline Failure refused(const Endpoint& where, const Greeting& greeting) {
  const auto [channel, received] = greet(where, greeting);
  REQUIRE(received.has_value());
  REQUIRE(received->kind == Frame::refused);
  MessageReader reader(received->body);
  reader.take<std::uint8_t>();
  return unpack_failure(reader);
}

}  // namespace busbw::test
