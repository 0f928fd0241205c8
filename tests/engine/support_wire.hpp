#pragma once
// Sockets for tests: raw clients and fake processes that connect to the store.
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
#include "rendezvous/channel/handshake.hpp"
#include "rendezvous/channel/tcp_channel.hpp"
#include "rendezvous/channel/tcp_wire.hpp"

namespace busbw::test {

inline constexpr int kTimeoutMs = 60'000;  // never reached unless a test hangs
inline const std::string kToken = "0123456789abcdef0123456789abcdef";

inline Endpoint loopback(int port = 0) { return endpoint_of("127.0.0.1", port); }

inline Bytes bytes_of(std::string_view text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

inline std::string text_of(const Bytes& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// Returns a free port. The kernel assigns another port to the next request for any port.
inline int free_port() { return local_endpoint(listen_at(loopback())).port(); }

/// Connects to `where`. Retries, because the listener may not be ready yet.
inline Descriptor connected_to(const Endpoint& where) {
  ConnectResult connected = connect_to(where, kTimeoutMs / kTickMs, [] { return false; });
  for (int waited_ms = 0; !connected.socket.is_open() && waited_ms < kTimeoutMs; waited_ms += 10) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    connected = connect_to(where, kTimeoutMs / kTickMs, [] { return false; });
  }
  REQUIRE_MESSAGE(connected.socket.is_open(), connected.message);
  return std::move(connected.socket);
}

/// A client that sends arbitrary bytes.
class RawClient {
 public:
  explicit RawClient(const Endpoint& where) : socket_(connected_to(where)) {}

  /// Sends bytes. False if the other side closes the connection first.
  bool send(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EAGAIN) {
        pollfd waiting{socket_.number(), POLLOUT, 0};
        if (poll(&waiting, 1, kTimeoutMs) <= 0) return false;
        continue;
      }
      if (sent <= 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
    return true;
  }
  bool send(std::string_view text) { return send(bytes_of(text)); }
  bool send(FrameKind kind, std::span<const std::byte> body) {
    Bytes frame;
    append_frame(frame, kind, body);
    return send(frame);
  }
  /// Receives until the other side closes the connection. Nothing on timeout.
  std::optional<Bytes> receive_all() {
    Bytes all;
    std::byte part[4096];
    for (;;) {
      pollfd waiting{socket_.number(), POLLIN, 0};
      if (poll(&waiting, 1, kTimeoutMs) <= 0) return std::nullopt;
      const ssize_t got = recv(socket_.number(), part, sizeof part, 0);
      if (got < 0 && errno == EAGAIN) continue;
      if (got <= 0) return all;
      all.insert(all.end(), part, part + got);
    }
  }
  /// Receives the next frame. Nothing on timeout or at the end of the connection.
  std::optional<TcpChannel::ReceivedFrame> receive_frame() {
    FrameReader reader;
    for (;;) {
      if (const auto body = reader.next(kMaxFrameBytes))
        return TcpChannel::ReceivedFrame{static_cast<FrameKind>(body->front()), Bytes(body->begin() + 1, body->end())};
      pollfd waiting{socket_.number(), POLLIN, 0};
      if (poll(&waiting, 1, kTimeoutMs) <= 0) return std::nullopt;
      std::byte one{};  // do not read beyond this frame
      const ssize_t got = recv(socket_.number(), &one, 1, 0);
      if (got < 0 && errno == EAGAIN) continue;
      if (got <= 0) return std::nullopt;
      reader.append(std::span(&one, 1));
    }
  }
  /// Sends a hello and returns the greeting frame for this connection.
  Bytes greeting(const ClientInfo& client, const std::string& token = kToken) {
    ClientHandshake handshake(token);
    REQUIRE(send(FrameKind::hello, handshake.hello()));
    const auto challenge = receive_frame();
    REQUIRE(challenge.has_value());
    REQUIRE(challenge->kind == FrameKind::challenge);
    Bytes frame;
    append_frame(frame, FrameKind::greeting, handshake.greeting(challenge->body, client));
    return frame;
  }
  bool is_rejected() { return receive_all().has_value(); }
  /// Resets the connection.
  void reset() {
    const linger at_once{1, 0};
    setsockopt(socket_.number(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    socket_.close();
  }
  const Descriptor& socket() const { return socket_; }

 private:
  Descriptor socket_;
};

/// Returns the next frame of another kind than `skipped`.
inline std::optional<TcpChannel::ReceivedFrame> next_frame(TcpChannel& channel, std::optional<FrameKind> skipped = {}) {
  for (int tick = 0; tick < kTimeoutMs / kTickMs && !channel.ended(); ++tick) {
    auto received = channel.receive(kTickMs);
    if (received && received->kind != skipped) return received;
  }
  return std::nullopt;
}

/// Runs a client handshake and returns its result.
inline ClientHandshake::HandshakeResult greet(TcpChannel& channel, const ClientInfo& greeting,
                                              const std::string& token = kToken) {
  ClientHandshake handshake(token);
  channel.send(FrameKind::hello, handshake.hello());
  const auto challenge = next_frame(channel);
  if (!challenge || challenge->kind != FrameKind::challenge) return {};
  channel.send(FrameKind::greeting, handshake.greeting(challenge->body, greeting));
  const auto result_frame = next_frame(channel);
  return result_frame ? handshake.result_of(result_frame->kind, result_frame->body)
                      : ClientHandshake::HandshakeResult{};
}

/// Returns a connection that the store has accepted.
inline TcpChannel welcomed(const Endpoint& where, const ClientInfo& greeting) {
  TcpChannel channel(connected_to(where));
  REQUIRE(greet(channel, greeting).kind == ClientHandshake::HandshakeResult::Kind::welcome);
  return channel;
}

/// Returns the failure with which the store refuses a greeting.
inline Failure refused(const Endpoint& where, const ClientInfo& greeting) {
  TcpChannel channel(connected_to(where));
  const auto result = greet(channel, greeting);
  REQUIRE(result.kind == ClientHandshake::HandshakeResult::Kind::refused);
  return result.failure;
}

}  // namespace busbw::test
