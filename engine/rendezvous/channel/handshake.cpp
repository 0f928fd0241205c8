// Proves to each side of a connection that the other side knows the job's token, without sending the token.
#include "rendezvous/channel/handshake.hpp"

#include <algorithm>
#include <utility>

#include "common/os/random_bytes.hpp"
#include "common/os/ticker.hpp"
#include "common/support/constant_time_equal.hpp"

namespace busbw {
namespace {

/// Beginning of a hello: the constant "bswbrol" and the version.
using HelloPrefix = std::array<char, 8>;
constexpr HelloPrefix kPrefix{'b', 's', 'w', 'b', 'r', 'o', 'l', kWireVersion};

/// Limit for the wait for a server's challenge. A listener that sends no challenge in this time is not one of busbw.
constexpr int kChallengeLimitTicks = 10 * kTicksPerS;

bool is_version_character(char version) {
  return (version >= '0' && version <= '9') || (version >= 'a' && version <= 'z') || (version >= 'A' && version <= 'Z');
}

/// HMAC that proves knowledge of the token for one frame. All inputs before the body have a fixed length, so different
/// inputs never produce the same bytes.
Digest make_proof(const std::string& token, const Nonces& nonces, FrameKind kind, std::span<const std::byte> body) {
  Bytes hmac_input(1, static_cast<std::byte>(kind));
  hmac_input.insert(hmac_input.end(), nonces.client.begin(), nonces.client.end());
  hmac_input.insert(hmac_input.end(), nonces.server.begin(), nonces.server.end());
  hmac_input.insert(hmac_input.end(), body.begin(), body.end());
  return hmac_sha256(token, {reinterpret_cast<const char*>(hmac_input.data()), hmac_input.size()});
}

/// Returns the proof of a frame, followed by `body`.
Bytes with_proof(const std::string& token, const Nonces& nonces, FrameKind kind, const Bytes& body) {
  Bytes frame(sizeof(Digest) + body.size());
  std::ranges::copy(make_proof(token, nonces, kind, body), frame.begin());
  std::ranges::copy(body, frame.begin() + sizeof(Digest));
  return frame;
}

/// Returns the result of a handshake in which the server answered the hello with a frame other than a challenge. A
/// hello with another version is the only valid frame.
ClientHandshake::HandshakeResult result_without_challenge(FrameKind kind, std::span<const std::byte> body) {
  if (kind != FrameKind::hello) return {};
  try {
    const char version = version_of_hello(body);
    if (version == kWireVersion) return {};  // a server of our own version never answers with a hello
    return {.kind = ClientHandshake::HandshakeResult::Kind::other_version, .version = version};
  } catch (const BrokenMessage&) {
    return {};
  }
}

struct CheckedFrame {
  std::span<const std::byte> body;  // after the proof
  bool is_proved;                   // the sender knows the token
};

/// Checks the proof at the beginning of a frame. Throws BrokenMessage if the frame is too short for a proof.
CheckedFrame check_proof(const std::string& token, const Nonces& nonces, FrameKind kind,
                         std::span<const std::byte> frame) {
  if (frame.size() < sizeof(Digest)) throw BrokenMessage();
  const std::span<const std::byte> body = frame.subspan(sizeof(Digest));
  return {body, constant_time_equal(frame.first(sizeof(Digest)), make_proof(token, nonces, kind, body))};
}

}  // namespace

char version_of_hello(std::span<const std::byte> hello) {
  const auto prefix = MessageReader(hello).take<HelloPrefix>();
  if (!std::equal(prefix.begin(), prefix.end() - 1, kPrefix.begin()) || !is_version_character(prefix.back()))
    throw BrokenMessage();
  return prefix.back();
}

Bytes version_mismatch_hello() { return MessageWriter().add(kPrefix).bytes(); }

ClientHandshake::ClientHandshake(std::string token)
    : token_(std::move(token)), nonces_{random_bytes<sizeof(Nonce)>(), {}} {}

Bytes ClientHandshake::hello() const { return MessageWriter().add(kPrefix).add(nonces_.client).bytes(); }

Bytes ClientHandshake::greeting(std::span<const std::byte> challenge, const ClientInfo& client) {
  if (has_sent_greeting_) throw BrokenMessage();
  nonces_.server = MessageReader(challenge).take<Nonce>();
  has_sent_greeting_ = true;
  return with_proof(token_, nonces_, FrameKind::greeting, MessageWriter().add(client).bytes());
}

ClientHandshake::HandshakeResult ClientHandshake::result_of(FrameKind kind, std::span<const std::byte> body) const {
  if (!has_sent_greeting_) return result_without_challenge(kind, body);
  if (kind != FrameKind::welcome && kind != FrameKind::refused) return {};
  const bool is_greeting_rejected = kind == FrameKind::refused && body.empty();
  if (is_greeting_rejected) return {.kind = HandshakeResult::Kind::other_token};
  try {
    const CheckedFrame frame = check_proof(token_, nonces_, kind, body);
    if (!frame.is_proved) return {};
    MessageReader reader(frame.body);
    if (kind == FrameKind::welcome) return {.kind = HandshakeResult::Kind::welcome, .host = reader.take_text()};
    return {.kind = HandshakeResult::Kind::refused, .failure = unpack_failure(reader)};
  } catch (const BrokenMessage&) {
    return {};
  }
}

ServerHandshake::ServerHandshake(std::span<const std::byte> hello) {
  MessageReader reader(hello);
  if (reader.take<HelloPrefix>() != kPrefix) throw BrokenMessage();
  nonces_.client = reader.take<Nonce>();
  nonces_.server = random_bytes<sizeof(Nonce)>();
}

Bytes ServerHandshake::challenge() const { return MessageWriter().add(nonces_.server).bytes(); }

ServerHandshake::ClientIdentity ServerHandshake::read_greeting(const std::string& token,
                                                               std::span<const std::byte> greeting) const {
  const CheckedFrame frame = check_proof(token, nonces_, FrameKind::greeting, greeting);
  return {MessageReader(frame.body).take<ClientInfo>(), frame.is_proved};
}

Bytes ServerHandshake::welcome(const std::string& token, const std::string& host) const {
  return with_proof(token, nonces_, FrameKind::welcome, MessageWriter().add(host).bytes());
}

Bytes ServerHandshake::refused(const std::string& token, const Failure& failure) const {
  return with_proof(token, nonces_, FrameKind::refused, packed(failure));
}

ClientHandshake::HandshakeResult exchange_handshake(TcpChannel& channel, const std::string& token,
                                                    const ClientInfo& client, int limit_ticks,
                                                    const std::function<void()>& on_tick) {
  ClientHandshake handshake(token);
  channel.send(FrameKind::hello, handshake.hello());
  // After the greeting, the server may count this process as joined, and would report it as lost if the client gave up.
  // So from then on, the client waits for the whole limit.
  bool has_sent_greeting = false;
  const auto max_wait_ticks = [&] {
    return has_sent_greeting ? limit_ticks : std::min(kChallengeLimitTicks, limit_ticks);
  };
  for (int waited_ticks = 0; waited_ticks < max_wait_ticks() && !channel.ended();) {
    on_tick();
    const auto received = channel.receive(kTickMs);
    if (!received) {
      ++waited_ticks;
      continue;
    }
    if (received->kind != FrameKind::challenge) return handshake.result_of(received->kind, received->body);
    try {
      channel.send(FrameKind::greeting, handshake.greeting(received->body, client));
      has_sent_greeting = true;
    } catch (const BrokenMessage&) {
      break;
    }
  }
  return {};
}

}  // namespace busbw
