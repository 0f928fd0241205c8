#pragma once
// A connection of a process or rank to the store in process 0.
#include <functional>
#include <optional>
#include <string>

#include "common/os/network.hpp"
#include "rendezvous/store/tcp_wire.hpp"

namespace busbw {

/// Frames over a socket. Not thread-safe.
class TcpChannel {
 public:
  struct ReceivedFrame {
    FrameKind kind;
    Bytes body;
  };

  explicit TcpChannel(Descriptor socket) : socket_(std::move(socket)) {}

  /// Queues a frame and sends as much as possible without blocking.
  void send(FrameKind kind, std::span<const std::byte> body);
  /// Returns the next frame, waiting at most `wait_ms`. Nothing on timeout, and always nothing after `ended`.
  std::optional<ReceivedFrame> receive(int wait_ms);
  /// True if the other side closed the connection or sent an invalid frame.
  bool ended() const { return ended_; }
  /// True if the last `receive` timed out without receiving any bytes.
  bool idle() const { return idle_; }
  /// Returns the address of the store: "10.0.0.1:4711".
  std::string peer() const;

 private:
  void flush();
  std::optional<ReceivedFrame> next();

  Descriptor socket_;
  FrameReader in_;
  Bytes out_;
  std::size_t sent_ = 0;
  bool ended_ = false;
  bool idle_ = false;
};

}  // namespace busbw
