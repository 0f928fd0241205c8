// Sends and receives frames over a non-blocking socket.
#include "rendezvous/channel/tcp_channel.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace busbw {

void TcpChannel::send(FrameKind kind, std::span<const std::byte> body) {
  append_frame(output_, kind, body);
  flush();
}

void TcpChannel::flush() {
  while (!ended_ && sent_bytes_ < output_.size()) {
    const ssize_t sent =
        ::send(socket_.number(), output_.data() + sent_bytes_, output_.size() - sent_bytes_, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    // The connection failed, usually because the peer closed it. Frames that the peer sent before can still be
    // received, so `ended_` stays false.
    if (sent <= 0) break;
    sent_bytes_ += static_cast<std::size_t>(sent);
  }
  output_.clear();
  sent_bytes_ = 0;
}

std::optional<TcpChannel::ReceivedFrame> TcpChannel::next_frame() {
  try {
    const auto frame = received_.next(max_frame_bytes_);
    if (!frame) return std::nullopt;
    return ReceivedFrame{static_cast<FrameKind>(frame->front()), Bytes(frame->begin() + 1, frame->end())};
  } catch (const BrokenMessage&) {
    ended_ = true;
    return std::nullopt;
  }
}

std::optional<TcpChannel::ReceivedFrame> TcpChannel::receive(int wait_ms) {
  idle_ = false;
  if (auto received = next_frame()) return received;
  if (ended_) return std::nullopt;
  const bool has_output = sent_bytes_ < output_.size();
  pollfd poll_entry{socket_.number(), static_cast<short>(has_output ? POLLIN | POLLOUT : POLLIN), 0};
  const int ready = poll(&poll_entry, 1, wait_ms);
  idle_ = ready == 0;
  if (ready <= 0) return std::nullopt;
  if ((poll_entry.revents & POLLOUT) != 0) flush();
  constexpr std::size_t kBufferBytes = 65536;
  std::array<std::byte, kBufferBytes> buffer;
  const ssize_t received_bytes = recv(socket_.number(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (received_bytes < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) return std::nullopt;
  if (received_bytes <= 0) {
    ended_ = true;
    return std::nullopt;
  }
  received_.append(std::span(buffer).first(static_cast<std::size_t>(received_bytes)));
  return next_frame();
}

std::string TcpChannel::peer() const {
  const auto endpoint = remote_endpoint(socket_);
  return endpoint ? endpoint->text() : "?";
}

}  // namespace busbw
