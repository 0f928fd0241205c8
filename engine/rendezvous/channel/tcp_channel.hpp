#pragma once
// A TCP connection that carries frames. It joins a process or rank with the store of process 0, or two ranks during
// their handshake.
#include <functional>
#include <optional>
#include <string>

#include "common/os/network.hpp"
#include "rendezvous/channel/tcp_wire.hpp"

namespace busbw {

/// Sends and receives frames over a socket. Not thread-safe.
class TcpChannel {
 public:
  struct ReceivedFrame {
    FrameKind kind;
    Bytes body;
  };

  /// A received frame longer than `max_frame_bytes` is invalid: `ended` becomes true.
  explicit TcpChannel(Descriptor socket, std::size_t max_frame_bytes = kMaxFrameBytes)
      : socket_(std::move(socket)), max_frame_bytes_(max_frame_bytes) {}

  /// Queues a frame and sends as much as possible without blocking. Later calls of `send` and `receive` send the rest.
  void send(FrameKind kind, std::span<const std::byte> body);
  /// Returns the next frame, waiting at most `wait_ms`. Nothing on timeout, and nothing once `ended` is true.
  std::optional<ReceivedFrame> receive(int wait_ms);
  /// True if the peer closed the connection or sent an invalid frame.
  bool ended() const { return ended_; }
  /// True if the last `receive` timed out without receiving any bytes.
  bool idle() const { return idle_; }
  /// Returns the address of the peer: "10.0.0.1:4711".
  std::string peer() const;
  int descriptor() const { return socket_.number(); }
  /// Releases the socket. Bytes that were received after the last frame are lost.
  Descriptor take_socket() { return std::move(socket_); }

 private:
  void flush();
  /// Returns the next frame of the bytes that were already received.
  std::optional<ReceivedFrame> next_frame();

  Descriptor socket_;
  std::size_t max_frame_bytes_;
  FrameReader received_;
  Bytes output_;
  std::size_t sent_bytes_ = 0;  // number of bytes at the start of `output_` that are already sent
  bool ended_ = false;
  bool idle_ = false;
};

}  // namespace busbw
