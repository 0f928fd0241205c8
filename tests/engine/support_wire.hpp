#pragma once
// Sockets of tests: what a stranger or a stand-in does at the store's port.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "common/os/network.hpp"
#include "common/os/ticker.hpp"
#include "rendezvous/store/handshake.hpp"
#include "rendezvous/store/tcp_channel.hpp"
#include "rendezvous/store/tcp_wire.hpp"

namespace busbw::test {

inline constexpr int kPatienceMs = 60'000;  // a guard against hangs
inline const std::string kToken = "0123456789abcdef0123456789abcdef";

inline Endpoint loopback(int port = 0) { return endpoint_of("127.0.0.1", port); }

inline Bytes bytes_of(std::string_view text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

inline std::string text_of(const Bytes& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// A port that nobody listens at; the next who asks for any gets another one.
inline int free_port() { return local_endpoint(listen_at(loopback())).port(); }

/// Whoever is to be reached may only just begin to listen.
inline Descriptor connected_to(const Endpoint& where) {
  ConnectResult connected = connect_to(where, kPatienceMs / kTickMs, [] { return false; });
  for (int waited_ms = 0; !connected.socket.is_open() && waited_ms < kPatienceMs; waited_ms += 10) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    connected = connect_to(where, kPatienceMs / kTickMs, [] { return false; });
  }
  REQUIRE_MESSAGE(connected.socket.is_open(), connected.message);
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
  bool say(FrameKind kind, std::span<const std::byte> body) {
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
  /// The next frame that comes.
  std::optional<TcpChannel::ReceivedFrame> hear() {
    FrameReader reader;
    std::span<const std::byte> body;
    while (!reader.next(body, kMaxFrameBytes)) {
      pollfd waiting{socket_.number(), POLLIN, 0};
      if (poll(&waiting, 1, kPatienceMs) <= 0) return std::nullopt;
      std::byte one{};  // not more than belongs to it
      const ssize_t got = recv(socket_.number(), &one, 1, 0);
      if (got < 0 && errno == EAGAIN) continue;
      if (got <= 0) return std::nullopt;
      reader.append(std::span(&one, 1));
    }
    return TcpChannel::ReceivedFrame{static_cast<FrameKind>(body.front()), Bytes(body.begin() + 1, body.end())};
  }
  /// Says hello, and gives the frame with which this connection can be greeted.
  Bytes greeting(const ClientInfo& who, const std::string& token = kToken) {
    ClientHandshake handshake(token);
    REQUIRE(say(FrameKind::hello, handshake.hello()));
    const auto challenge = hear();
    REQUIRE(challenge.has_value());
    REQUIRE(challenge->kind == FrameKind::challenge);
    Bytes frame;
    append_frame(frame, FrameKind::greeting, handshake.greeting(challenge->body, who));
    return frame;
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
inline std::optional<TcpChannel::ReceivedFrame> next_frame(TcpChannel& channel, std::optional<FrameKind> skipped = {}) {
  for (int tick = 0; tick < kPatienceMs / kTickMs && !channel.ended(); ++tick) {
    auto received = channel.receive(kTickMs);
    if (received && received->kind != skipped) return received;
  }
  return std::nullopt;
}

/// What the store says to a greeting.
inline ClientHandshake::HandshakeResult greet(TcpChannel& channel, const ClientInfo& greeting,
                                      const std::string& token = kToken) {
  ClientHandshake handshake(token);
  channel.send(FrameKind::hello, handshake.hello());
  const auto challenge = next_frame(channel);
  if (!challenge || challenge->kind != FrameKind::challenge) return {};
  channel.send(FrameKind::greeting, handshake.greeting(challenge->body, greeting));
  const auto word = next_frame(channel);
  return word ? handshake.result_of(word->kind, word->body) : ClientHandshake::HandshakeResult{};
}

/// A connection that the store has welcomed.
inline TcpChannel welcomed(const Endpoint& where, const ClientInfo& greeting) {
  TcpChannel channel(connected_to(where));
  REQUIRE(greet(channel, greeting).kind == ClientHandshake::HandshakeResult::Kind::welcome);
  return channel;
}

/// Exit code and sentence with which the store refuses a greeting.
inline Failure refused(const Endpoint& where, const ClientInfo& greeting) {
  TcpChannel channel(connected_to(where));
  const auto verdict = greet(channel, greeting);
  REQUIRE(verdict.kind == ClientHandshake::HandshakeResult::Kind::refused);
  return verdict.why;
}

}  // namespace busbw::test
