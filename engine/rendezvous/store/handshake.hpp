#pragma once
// How the two ends of a connection show each other that both know the job's token, without saying it: each end draws a
// number (a nonce), and proves that it knows the token by what HMAC-SHA-256 makes of it, of both numbers and of what it
// says. What was heard on one connection is worth nothing on another one.
//
//   client: hello      its number
//   server: challenge  its number
//   client: greeting   proof, who it is
//   server: welcome    proof, its host          or refused: proof, why          or refused: nothing, for a wrong proof
//
// In all versions, the first frame is a hello, and it begins with "bswbrol" and one letter or digit, the version. Who
// hears another one than its own says this beginning of a hello back and ends the connection, so that both can name
// both.
#include <array>
#include <span>
#include <string>

#include "common/support/sha256.hpp"
#include "rendezvous/store/tcp_wire.hpp"

namespace busbw {

using Nonce = std::array<std::byte, 16>;

/// The version that a hello is of. Throws BrokenMessage where it is no hello of busbw.
char version_of_hello(std::span<const std::byte> hello);
/// The body of the Frame::hello that answers one of another version.
Bytes version_mismatch_hello();

/// The two ends' numbers.
struct Nonces {
  Nonce client;
  Nonce server;
};

/// The end in a process that joins.
class ClientHandshake {
 public:
  explicit ClientHandshake(std::string token);
  /// The body of Frame::hello.
  Bytes hello() const;
  /// The body of Frame::greeting, once the server's challenge is there. Throws BrokenMessage where that is none, or a
  /// second one.
  Bytes greeting(std::span<const std::byte> challenge, const ClientInfo& who);

  /// What the other end's last word means.
  struct HandshakeResult {
    enum class Kind {
      welcome,
      refused,      // by the job's process 0
      other_token,  // the other end says so of the greeting, which is not proved: anybody can say it
      other_version,  // it speaks another version; not proved either
      stranger,     // it is no store of busbw, or does not know the token
    };
    Kind kind = Kind::stranger;
    std::string host;  // welcome: process 0's
    Failure why{};     // refused
    char version = kWireVersion;  // other_version: its own
  };
  /// Of a frame's kind and body. Nothing but `other_token` is said of what is not proved, and nothing but `stranger`
  /// and `other_version` before a greeting.
  HandshakeResult result_of(FrameKind kind, std::span<const std::byte> body) const;

 private:
  std::string token_;
  Nonces nonces_;
  bool has_greeted_ = false;
};

/// The end in process 0.
class ServerHandshake {
 public:
  /// From the body of a hello of this version. Throws BrokenMessage where it is none.
  explicit ServerHandshake(std::span<const std::byte> hello);
  /// The body of Frame::challenge.
  Bytes challenge() const;
  /// Who greets, by the body of a greeting, and whether it knows the token. Throws BrokenMessage.
  struct ClientIdentity {
    ClientInfo who;
    bool knows_token = false;
  };
  ClientIdentity read_greeting(const std::string& token, std::span<const std::byte> greeting) const;
  /// The body of Frame::welcome.
  Bytes welcome(const std::string& token, const std::string& host) const;
  /// The body of Frame::refused, for one that knows the token.
  Bytes refused(const std::string& token, const Failure& why) const;

 private:
  Nonces nonces_;
};

}  // namespace busbw
