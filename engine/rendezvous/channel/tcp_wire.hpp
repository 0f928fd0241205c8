#pragma once
// Wire format of connections to the TCP store of process 0, and of the handshake between two ranks. Each frame has a
// kind and a body, after a length that counts both. A connection starts with the handshake (handshake.hpp), and other
// frames are rejected before it.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>

#include "rendezvous/team/job.hpp"
#include "values/message.hpp"

namespace busbw {

inline constexpr char kWireVersion = '4';

/// First byte of a frame. Each comment names the sender and the body. In a handshake between two ranks, one of them is
/// the server.
enum class FrameKind : std::uint8_t {
  hello,      // client: version, nonce; server, to a client of another version: its own version
  challenge,  // server: nonce
  greeting,   // client: proof, ClientInfo
  welcome,    // server: proof, host of process 0 (empty if the server is a rank)
  refused,    // server: proof, exit code and message; or empty, if the greeting's proof was wrong
  request,    // client: StoreRequest
  reply,      // server: request number, kind and value of a StoreReply
  phase,      // client: local rank and its new phase
  heartbeat,  // client: progress of each local rank; server: empty reply
  abort,      // client: exit code and message
  failure,    // server: exit code and message
  leave,      // client: the process leaves, because its ranks have ended; server: empty reply, also to `withdraw`
  withdraw,   // client: the process leaves after an error of its own, with the reason
};

/// Bound for frames: a value of StoreState::kMaxValueBytes, with its key and the other fields.
inline constexpr std::size_t kMaxFrameBytes = (std::size_t{1} << 20) + 4096;
/// Bound for frames of clients that are not authenticated, so that they cannot use much memory.
inline constexpr std::size_t kMaxGreetingBytes = 1024;
/// Size of the length before each frame, in bytes.
inline constexpr std::size_t kLengthBytes = sizeof(std::uint32_t);

/// Identity of a client. A process has one control connection for heartbeats and one connection for each of its ranks.
struct ClientInfo {
  /// 1 for the control connection of a process, 0 for the connection of a rank. Not a bool, because a bool with another
  /// value from the network would be undefined.
  std::uint8_t is_control = 0;
  std::int32_t process = 0;
  std::int32_t processes = 1;
  std::int32_t ranks_per_process = 1;
  std::int64_t pid = 0;
  std::string host;

  static auto members(auto& self) {
    return std::tie(self.is_control, self.process, self.processes, self.ranks_per_process, self.pid, self.host);
  }
};

/// Appends a frame to `out`, with its length before it.
inline void append_frame(Bytes& out, FrameKind kind, std::span<const std::byte> body) {
  const auto length = static_cast<std::uint32_t>(body.size() + 1);
  const auto* first = reinterpret_cast<const std::byte*>(&length);
  out.insert(out.end(), first, first + sizeof(length));
  out.push_back(static_cast<std::byte>(kind));
  out.insert(out.end(), body.begin(), body.end());
}

/// Encodes a failure for unpack_failure().
inline Bytes packed(const Failure& failure) { return MessageWriter().add(failure.exit).add(failure.message).bytes(); }
/// Throws BrokenMessage if the message is too short or the exit code is not one of a failure.
inline Failure unpack_failure(MessageReader& reader) {
  const auto exit = reader.take<ExitCode>();
  switch (exit) {
    case ExitCode::wrong_data:
    case ExitCode::usage:
    case ExitCode::environment:
    case ExitCode::rank_lost:
    case ExitCode::slower_than_demanded:
    case ExitCode::interrupted:
    case ExitCode::output_closed:
    case ExitCode::terminated: return {exit, reader.take_text()};
    case ExitCode::good: break;
  }
  throw BrokenMessage();
}

/// Splits the received bytes of a connection into frames.
class FrameReader {
 public:
  void append(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  /// Returns the next frame: kind and body, valid until the next call. Nothing if no frame is complete. Throws
  /// BrokenMessage if a frame is empty or longer than `max_bytes`.
  std::optional<std::span<const std::byte>> next(std::size_t max_bytes) {
    const auto unread = std::span<const std::byte>(bytes_).subspan(read_bytes_);
    std::uint32_t length = 0;
    if (unread.size() >= kLengthBytes) {
      std::memcpy(&length, unread.data(), sizeof(length));
      if (length == 0 || length > max_bytes) throw BrokenMessage();
      if (unread.size() >= kLengthBytes + length) {
        read_bytes_ += kLengthBytes + length;
        return unread.subspan(kLengthBytes, length);
      }
    }
    // The next frame is incomplete. Remove the returned frames before it.
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(read_bytes_));
    read_bytes_ = 0;
    return std::nullopt;
  }

 private:
  Bytes bytes_;
  std::size_t read_bytes_ = 0;  // number of bytes at the start of `bytes_` that `next` has already returned
};

}  // namespace busbw
