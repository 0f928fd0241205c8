#include "rendezvous/store/handshake.hpp"

#include <algorithm>
#include <utility>

#include "common/os/random_bytes.hpp"
#include "common/support/constant_time_equal.hpp"

namespace busbw {
namespace {

using HelloPrefix = std::array<char, 8>;
constexpr HelloPrefix kBeginning{'b', 's', 'w', 'b', 'r', 'o', 'l', kWireVersion};

bool is_version(char letter) {
  return (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
}

/// What shows that whoever says `body` as a frame of this kind knows the token. All but the body has a fixed length, so
/// that no two different things have the same bytes.
Digest proof_of(const std::string& token, const Nonces& nonces, FrameKind kind, std::span<const std::byte> body) {
  Bytes all(1, static_cast<std::byte>(kind));
  all.insert(all.end(), nonces.client.begin(), nonces.client.end());
  all.insert(all.end(), nonces.server.begin(), nonces.server.end());
  all.insert(all.end(), body.begin(), body.end());
  return hmac_sha256(token, {reinterpret_cast<const char*>(all.data()), all.size()});
}

Bytes proved(const std::string& token, const Nonces& nonces, FrameKind kind, const Bytes& body) {
  Bytes all(sizeof(Digest) + body.size());
  std::ranges::copy(proof_of(token, nonces, kind, body), all.begin());
  std::ranges::copy(body, all.begin() + sizeof(Digest));
  return all;
}

/// What follows the proof; `is_proved` says whether that is right. Throws BrokenMessage where there is no room for one.
std::span<const std::byte> take_proof(const std::string& token, const Nonces& nonces, FrameKind kind,
                                      std::span<const std::byte> all, bool& is_proved) {
  if (all.size() < sizeof(Digest)) throw BrokenMessage();
  const std::span<const std::byte> body = all.subspan(sizeof(Digest));
  is_proved = constant_time_equal(all.first(sizeof(Digest)), proof_of(token, nonces, kind, body));
  return body;
}

}  // namespace

char version_of_hello(std::span<const std::byte> hello) {
  const auto beginning = MessageReader(hello).take<HelloPrefix>();
  if (!std::equal(beginning.begin(), beginning.end() - 1, kBeginning.begin()) || !is_version(beginning.back()))
    throw BrokenMessage();
  return beginning.back();
}

Bytes version_mismatch_hello() { return MessageWriter().add(kBeginning).bytes(); }

ClientHandshake::ClientHandshake(std::string token)
    : token_(std::move(token)), nonces_{random_bytes<sizeof(Nonce)>(), {}} {}

Bytes ClientHandshake::hello() const { return MessageWriter().add(kBeginning).add(nonces_.client).bytes(); }

Bytes ClientHandshake::greeting(std::span<const std::byte> challenge, const ClientInfo& who) {
  if (has_greeted_) throw BrokenMessage();
  nonces_.server = MessageReader(challenge).take<Nonce>();
  has_greeted_ = true;
  return proved(token_, nonces_, FrameKind::greeting, who.packed());
}

ClientHandshake::HandshakeResult ClientHandshake::result_of(FrameKind kind, std::span<const std::byte> body) const {
  HandshakeResult verdict;
  if (!has_greeted_) {
    if (kind != FrameKind::hello) return verdict;
    try {
      verdict.version = version_of_hello(body);
    } catch (const BrokenMessage&) {
      return verdict;
    }
    if (verdict.version != kWireVersion) verdict.kind = HandshakeResult::Kind::other_version;
    return verdict;
  }
  if (kind == FrameKind::refused && body.empty()) verdict.kind = HandshakeResult::Kind::other_token;
  if ((kind != FrameKind::welcome && kind != FrameKind::refused) || body.empty()) return verdict;
  try {
    bool is_proved = false;
    MessageReader reader(take_proof(token_, nonces_, kind, body, is_proved));
    if (!is_proved) return verdict;
    if (kind == FrameKind::welcome) return {HandshakeResult::Kind::welcome, reader.take_text(), {}};
    return {HandshakeResult::Kind::refused, {}, unpack_failure(reader)};
  } catch (const BrokenMessage&) {
    return {};
  }
}

ServerHandshake::ServerHandshake(std::span<const std::byte> hello) {
  MessageReader reader(hello);
  if (reader.take<HelloPrefix>() != kBeginning) throw BrokenMessage();
  nonces_.client = reader.take<Nonce>();
  nonces_.server = random_bytes<sizeof(Nonce)>();
}

Bytes ServerHandshake::challenge() const { return MessageWriter().add(nonces_.server).bytes(); }

ServerHandshake::ClientIdentity ServerHandshake::read_greeting(const std::string& token, std::span<const std::byte> greeting) const {
  ClientIdentity greeted;
  MessageReader reader(take_proof(token, nonces_, FrameKind::greeting, greeting, greeted.knows_token));
  greeted.who = ClientInfo::unpack(reader);
  return greeted;
}

Bytes ServerHandshake::welcome(const std::string& token, const std::string& host) const {
  return proved(token, nonces_, FrameKind::welcome, MessageWriter().add(host).bytes());
}

Bytes ServerHandshake::refused(const std::string& token, const Failure& why) const {
  return proved(token, nonces_, FrameKind::refused, packed(why));
}

}  // namespace busbw
