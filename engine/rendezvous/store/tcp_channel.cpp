#include "rendezvous/store/tcp_channel.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace busbw {

void TcpChannel::send(FrameKind kind, std::span<const std::byte> body) {
  append_frame(out_, kind, body);
  flush();
}

void TcpChannel::flush() {
  while (!ended_ && sent_ < out_.size()) {
    const ssize_t sent = ::send(socket_.number(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (sent <= 0) {
      // Frames that the other side sent before it closed can still be received.
      out_.clear();
      sent_ = 0;
      return;
    }
    sent_ += static_cast<std::size_t>(sent);
  }
  out_.clear();
  sent_ = 0;
}

std::optional<TcpChannel::ReceivedFrame> TcpChannel::next() {
  std::span<const std::byte> body;
  try {
    if (!in_.next(body, kMaxFrameBytes)) return std::nullopt;
  } catch (const BrokenMessage&) {
    ended_ = true;
    return std::nullopt;
  }
  return ReceivedFrame{static_cast<FrameKind>(body.front()), Bytes(body.begin() + 1, body.end())};
}

std::optional<TcpChannel::ReceivedFrame> TcpChannel::receive(int wait_ms) {
  idle_ = false;
  if (auto received = next()) return received;
  if (ended_) return std::nullopt;
  pollfd waiting{socket_.number(), static_cast<short>(sent_ < out_.size() ? POLLIN | POLLOUT : POLLIN), 0};
  const int ready = poll(&waiting, 1, wait_ms);
  idle_ = ready == 0;
  if (ready <= 0) return std::nullopt;
  if ((waiting.revents & POLLOUT) != 0) flush();
  std::array<std::byte, 65536> part;
  const ssize_t got = recv(socket_.number(), part.data(), part.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) return std::nullopt;
  if (got <= 0) {
    ended_ = true;
    return std::nullopt;
  }
  in_.append(std::span(part).first(static_cast<std::size_t>(got)));
  return next();
}

std::string TcpChannel::peer() const {
  const auto endpoint = remote_endpoint(socket_);
  return endpoint ? endpoint->text() : "?";
}

}  // namespace busbw
