#include "rendezvous/channel/handshake.hpp"

#include <doctest/doctest.h>

using namespace busbw;

namespace {

using Kind = ClientHandshake::HandshakeResult::Kind;

const ClientInfo kClientInfo{true, 3, 8, 2, 4711, "n3"};

/// Client and server up to the greeting's proof.
struct Handshake {
  Handshake(const std::string& client_token, const std::string& server_token)
      : client(client_token), server(client.hello()), token(server_token) {
    greeting = client.greeting(server.challenge(), kClientInfo);
    identity = server.read_greeting(token, greeting);
  }
  ClientHandshake client;
  ServerHandshake server;
  std::string token;
  Bytes greeting;
  ServerHandshake::ClientIdentity identity;
};

}  // namespace

TEST_CASE("handshake: two sides with the token authenticate each other") {
  for (const std::string& token : {std::string("a token"), std::string(), std::string(1024, 'x')}) {
    const Handshake handshake(token, token);
    CHECK(handshake.identity.knows_token);
    CHECK(MessageWriter().add(handshake.identity.client).bytes() == MessageWriter().add(kClientInfo).bytes());
    const auto welcome = handshake.client.result_of(FrameKind::welcome, handshake.server.welcome(token, "n0"));
    CHECK(welcome.kind == Kind::welcome);
    CHECK(welcome.host == "n0");
    const auto refused =
        handshake.client.result_of(FrameKind::refused, handshake.server.refused(token, {ExitCode::usage, "other -t"}));
    CHECK(refused.kind == Kind::refused);
    CHECK(refused.failure.exit == ExitCode::usage);
    CHECK(refused.failure.message == "other -t");
  }
}

TEST_CASE("handshake: neither side accepts another token") {
  const Handshake handshake("a token", "another");
  CHECK_FALSE(handshake.identity.knows_token);
  CHECK(handshake.client.result_of(FrameKind::refused, {}).kind == Kind::other_token);
  CHECK(handshake.client.result_of(FrameKind::welcome, handshake.server.welcome("another", "n0")).kind ==
        Kind::not_authenticated);
  CHECK(handshake.client.result_of(FrameKind::refused, handshake.server.refused("another", {ExitCode::usage, "no"}))
            .kind == Kind::not_authenticated);
}

TEST_CASE("handshake: no frame contains the token") {
  const std::string token = "0123456789abcdef";
  const Handshake handshake(token, token);
  for (const Bytes& frame : {handshake.client.hello(), handshake.server.challenge(), handshake.greeting,
                             handshake.server.welcome(token, "n0")}) {
    const std::string text(reinterpret_cast<const char*>(frame.data()), frame.size());
    for (std::size_t i = 0; i + 4 <= token.size(); ++i) CHECK(text.find(token.substr(i, 4)) == text.npos);
  }
}

TEST_CASE("handshake: frames of one connection are not valid on another") {
  const std::string token = "a token";
  const Handshake one(token, token), other(token, token);
  CHECK_FALSE(other.server.read_greeting(token, one.greeting).knows_token);
  CHECK(other.client.result_of(FrameKind::welcome, one.server.welcome(token, "n0")).kind == Kind::not_authenticated);
  // A proof of one side is not valid for the other side or for another frame kind.
  const Bytes& echoed = one.greeting;
  CHECK(one.client.result_of(FrameKind::welcome, echoed).kind == Kind::not_authenticated);
  const Bytes welcome = one.server.welcome(token, "n0");
  CHECK(one.client.result_of(FrameKind::refused, welcome).kind == Kind::not_authenticated);
}

TEST_CASE("handshake: the proof covers every byte") {
  const std::string token = "a token";
  const Handshake handshake(token, token);
  for (std::size_t i = 0; i < handshake.greeting.size(); ++i) {
    Bytes changed = handshake.greeting;
    changed[i] ^= std::byte{0x10};
    bool is_accepted = false;
    try {
      is_accepted = handshake.server.read_greeting(token, changed).knows_token;
    } catch (const BrokenMessage&) {  // the changed lengths are invalid
    }
    CHECK_FALSE(is_accepted);
  }
  const Bytes welcome = handshake.server.welcome(token, "n0");
  for (std::size_t i = 0; i < welcome.size(); ++i) {
    Bytes changed = welcome;
    changed[i] ^= std::byte{0x10};
    CHECK(handshake.client.result_of(FrameKind::welcome, changed).kind == Kind::not_authenticated);
  }
}

TEST_CASE("handshake: rejects short frames and frames of other kinds") {
  const std::string token = "a token";
  const Handshake handshake(token, token);
  const Bytes hello = handshake.client.hello();
  for (std::size_t length = 0; length < hello.size(); ++length)
    CHECK_THROWS_AS(ServerHandshake(std::span(hello).first(length)), BrokenMessage);
  Bytes wrong = hello;
  wrong[0] ^= std::byte{1};
  CHECK_THROWS_AS(ServerHandshake{wrong}, BrokenMessage);
  ClientHandshake client(token);
  const Bytes challenge = handshake.server.challenge();
  CHECK_THROWS_AS(client.greeting(std::span(challenge).first(15), kClientInfo), BrokenMessage);
  for (std::size_t length = 0; length < 32; ++length)
    CHECK_THROWS_AS(handshake.server.read_greeting(token, std::span(handshake.greeting).first(length)), BrokenMessage);
  const Bytes welcome = handshake.server.welcome(token, "n0");
  for (std::size_t length = 0; length < welcome.size(); ++length)
    CHECK(handshake.client.result_of(FrameKind::welcome, std::span(welcome).first(length)).kind ==
          Kind::not_authenticated);
  for (const FrameKind kind :
       {FrameKind::hello, FrameKind::challenge, FrameKind::greeting, FrameKind::reply, static_cast<FrameKind>(200)})
    CHECK(handshake.client.result_of(kind, welcome).kind == Kind::not_authenticated);
}

TEST_CASE("handshake: two sides of different versions learn both versions") {
  const Bytes own = ClientHandshake("a token").hello();
  CHECK(version_of_hello(own) == kWireVersion);
  CHECK(version_of_hello(version_mismatch_hello()) == kWireVersion);
  const ClientHandshake client("a token");
  for (const char other : {'1', '9', 'a', 'Z'}) {
    Bytes hello = own;
    hello[7] = static_cast<std::byte>(other);
    CHECK(version_of_hello(hello) == other);
    CHECK_THROWS_AS(ServerHandshake{hello}, BrokenMessage);
    hello.resize(8);
    const auto result = client.result_of(FrameKind::hello, hello);
    CHECK(result.kind == Kind::other_version);
    CHECK(result.version == other);
  }
  for (const char invalid : {'\0', ' ', '\x1b', '\xff'}) {
    Bytes hello = own;
    hello[7] = static_cast<std::byte>(invalid);
    CHECK_THROWS_AS(version_of_hello(hello), BrokenMessage);
    CHECK(client.result_of(FrameKind::hello, hello).kind == Kind::not_authenticated);
  }
  for (std::size_t length = 0; length < 8; ++length) {
    CHECK_THROWS_AS(version_of_hello(std::span(own).first(length)), BrokenMessage);
    CHECK(client.result_of(FrameKind::hello, std::span(own).first(length)).kind == Kind::not_authenticated);
  }
  CHECK(client.result_of(FrameKind::hello, own).kind ==
        Kind::not_authenticated);  // a server of the same version never sends it
  const Handshake handshake("a token", "a token");
  Bytes late = own;
  late[7] = std::byte{'9'};
  CHECK(handshake.client.result_of(FrameKind::hello, late).kind == Kind::not_authenticated);
}

TEST_CASE("handshake: a client answers one challenge, and accepts no result before its greeting") {
  ClientHandshake client("a token");
  ServerHandshake server(client.hello());
  CHECK(client.result_of(FrameKind::refused, {}).kind == Kind::not_authenticated);
  static_cast<void>(client.greeting(server.challenge(), kClientInfo));
  CHECK(client.result_of(FrameKind::refused, {}).kind == Kind::other_token);
  CHECK_THROWS_AS(client.greeting(server.challenge(), kClientInfo), BrokenMessage);
}
