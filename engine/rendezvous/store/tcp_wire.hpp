#pragma once
// What goes over the wire between the processes of a job and the store in process 0: frames of a length and a body. A
// connection begins with a handshake (handshake.hpp); nothing else is answered before it.
#include <cstdint>
#include <span>
#include <string>

#include "rendezvous/team/job.hpp"
#include "values/message.hpp"

namespace busbw {

/// The version of all that goes over the wire.
inline constexpr char kWireVersion = '2';

/// The first byte of a body.
enum class FrameKind : std::uint8_t {
  hello,      // client: version, nonce; server, to one of another version: its own
  challenge,  // server: nonce
  greeting,   // client: proof, Greeting
  welcome,    // server: proof, process 0's host
  refused,    // server: proof, exit code and sentence; or nothing, where the greeting's proof was wrong
  request,    // client: StoreRequest
  answer,     // server: number, kind, value
  phase,      // client: which of its process's ranks has come to which phase, at once
  heartbeat,       // client: phase and steps of each of its ranks; server: nothing
  abort,      // client: exit code and sentence
  failure,    // server: exit code and sentence
  leave,      // client: its ranks have ended; server: nothing
};

inline constexpr std::size_t kMaxFrameBytes = (std::size_t{1} << 20) + 4096;
/// A stranger cannot make the server keep more than this.
inline constexpr std::size_t kMaxGreetingBytes = 1024;
inline constexpr std::size_t kLengthBytes = sizeof(std::uint32_t);

/// Who connects. A process keeps one connection for itself, over which it tells how far its ranks are, and one for each
/// of its ranks.
struct ClientInfo {
  bool is_process = false;
  std::int32_t process = 0;
  std::int32_t processes = 1;
  std::int32_t ranks_per_process = 1;
  std::int64_t pid = 0;
  std::string host;

  Bytes packed() const {
    return MessageWriter()
        .add(is_process)
        .add(process)
        .add(processes)
        .add(ranks_per_process)
        .add(pid)
        .add(host)
        .bytes();
  }
  /// Throws BrokenMessage.
  static ClientInfo unpack(MessageReader& reader) {
    ClientInfo greeting;
    greeting.is_process = reader.take<std::uint8_t>() != 0;
    greeting.process = reader.take<std::int32_t>();
    greeting.processes = reader.take<std::int32_t>();
    greeting.ranks_per_process = reader.take<std::int32_t>();
    greeting.pid = reader.take<std::int64_t>();
    greeting.host = reader.take_text();
    return greeting;
  }
};

/// A body with its length before it.
inline void append_frame(Bytes& out, FrameKind kind, std::span<const std::byte> body) {
  const auto length = static_cast<std::uint32_t>(body.size() + 1);
  const auto* first = reinterpret_cast<const std::byte*>(&length);
  out.insert(out.end(), first, first + sizeof(length));
  out.push_back(static_cast<std::byte>(kind));
  out.insert(out.end(), body.begin(), body.end());
}

inline Bytes packed(const Failure& failure) { return MessageWriter().add(failure.exit).add(failure.message).bytes(); }
/// Throws BrokenMessage, also where the exit code is none with which a job fails.
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

/// The bytes of a connection that have come, taken out frame by frame.
class FrameReader {
 public:
  void append(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  /// The next whole frame's body, valid until bytes are appended; false where there is none yet. Throws BrokenMessage
  /// on a frame that is longer than `max_bytes` or empty.
  bool next(std::span<const std::byte>& body, std::size_t max_bytes) {
    const auto left = std::span<const std::byte>(bytes_).subspan(taken_);
    std::uint32_t length = 0;
    if (left.size() >= kLengthBytes) {
      std::memcpy(&length, left.data(), sizeof(length));
      if (length == 0 || length > max_bytes) throw BrokenMessage();
      if (left.size() >= kLengthBytes + length) {
        taken_ += kLengthBytes + length;
        body = left.subspan(kLengthBytes, length);
        return true;
      }
    }
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(taken_));
    taken_ = 0;
    return false;
  }

 private:
  Bytes bytes_;
  std::size_t taken_ = 0;
};

}  // namespace busbw
