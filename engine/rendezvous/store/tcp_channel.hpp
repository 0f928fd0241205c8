#pragma once
// One connection of a job's member to the store in process 0.
#include <functional>
#include <optional>
#include <string>

#include "common/os/network.hpp"
#include "rendezvous/store/tcp_wire.hpp"

namespace busbw {

/// Frames over a socket. Not safe for several threads.
class TcpChannel {
 public:
  struct ReceivedFrame {
    FrameKind kind;
    Bytes body;
  };

  explicit TcpChannel(Descriptor socket) : socket_(std::move(socket)) {}

  /// Queues a frame and sends what can be sent at once.
  void send(FrameKind kind, std::span<const std::byte> body);
  /// The next frame, waiting for it at most `wait_ms`; missing where none came. After `ended` none will.
  std::optional<ReceivedFrame> receive(int wait_ms);
  /// The other side has closed the connection, or sent what is no frame.
  bool ended() const { return ended_; }
  /// The last `receive` waited all its time and nothing came, not even a part of a frame.
  bool idle() const { return idle_; }
  /// "10.0.0.1:4711": where the store was reached.
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
