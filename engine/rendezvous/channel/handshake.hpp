#pragma once
// Mutual authentication of a connection. Each side proves that it knows the token of the job, or of a rank's listener,
// without sending the token. A proof is the HMAC-SHA-256 with the token as key over the frame kind, both sides' nonces
// and the rest of the body. Each proof covers both nonces, so a recorded handshake cannot be replayed.
//
//   client: hello      version, client nonce
//   server: challenge  server nonce
//   client: greeting   proof, ClientInfo
//   server: welcome    proof, host of process 0 (empty from a rank)
//           or refused proof, failure
//           or refused empty, if the greeting's proof was wrong
//
// In all versions, the first frame is a hello. A hello begins with the constant "bswbrol", followed by the version,
// which is one letter or digit. If the client has another version, the server answers with a hello of the server's
// version, without a nonce, and closes the connection. Both sides can then report both versions.
#include <array>
#include <functional>
#include <span>
#include <string>

#include "common/support/sha256.hpp"
#include "rendezvous/channel/tcp_channel.hpp"

namespace busbw {

/// Random number that a side makes for each connection.
using Nonce = std::array<std::byte, 16>;

/// Returns the version in a hello. Throws BrokenMessage if the body is not a hello of busbw.
char version_of_hello(std::span<const std::byte> hello);
/// Returns the body of the FrameKind::hello that answers a client of another version.
Bytes version_mismatch_hello();

/// Nonces of both sides of a connection.
struct Nonces {
  Nonce client;
  Nonce server;
};

/// Client side of the handshake, in a process or rank that connects.
class ClientHandshake {
 public:
  explicit ClientHandshake(std::string token);
  /// Returns the body of FrameKind::hello.
  Bytes hello() const;
  /// Returns the body of FrameKind::greeting for a challenge. Throws BrokenMessage if the challenge is invalid or the
  /// second one.
  Bytes greeting(std::span<const std::byte> challenge, const ClientInfo& client);

  struct HandshakeResult {
    enum class Kind {
      welcome,
      refused,            // authenticated refusal by the job's process 0
      other_token,        // the server reports a wrong proof; not authenticated
      other_version,      // the server has another version; not authenticated
      not_authenticated,  // not a busbw store, or a server without the token
    };
    Kind kind = Kind::not_authenticated;
    std::string host = {};        // if welcome: host of process 0
    Failure failure{};            // if refused
    char version = kWireVersion;  // if other_version: the server's version
  };
  /// Returns the result that the server's last frame means. Before the greeting, the result is `other_version` or
  /// `not_authenticated`. After the greeting, a frame without a valid proof gives `other_token` or `not_authenticated`.
  HandshakeResult result_of(FrameKind kind, std::span<const std::byte> body) const;

 private:
  std::string token_;
  Nonces nonces_;
  bool has_sent_greeting_ = false;
};

/// Exchanges the frames of the client's handshake and returns the result. On timeout, the result is
/// `not_authenticated`. Calls `on_tick` ten times a second.
ClientHandshake::HandshakeResult exchange_handshake(TcpChannel& channel, const std::string& token,
                                                    const ClientInfo& client, int limit_ticks,
                                                    const std::function<void()>& on_tick);

/// Server side of the handshake, in process 0 or in a rank that accepts other ranks.
class ServerHandshake {
 public:
  /// Reads the body of a hello of this version. Throws BrokenMessage if it is invalid.
  explicit ServerHandshake(std::span<const std::byte> hello);
  /// Returns the body of FrameKind::challenge.
  Bytes challenge() const;
  /// Content of a greeting.
  struct ClientIdentity {
    ClientInfo client;
    bool knows_token = false;  // the greeting has a valid proof
  };
  /// Reads the body of a greeting. Throws BrokenMessage if it is invalid.
  ClientIdentity read_greeting(const std::string& token, std::span<const std::byte> greeting) const;
  /// Returns the body of FrameKind::welcome.
  Bytes welcome(const std::string& token, const std::string& host) const;
  /// Returns the body of FrameKind::refused for a client that knows the token.
  Bytes refused(const std::string& token, const Failure& failure) const;

 private:
  Nonces nonces_;
};

}  // namespace busbw
