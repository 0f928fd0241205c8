#include "rendezvous/store/handshake.hpp"

#include <doctest/doctest.h>

using namespace busbw;

namespace {

using Kind = ClientHandshake::HandshakeResult::Kind;

const ClientInfo kWho{true, 3, 8, 2, 4711, "n3"};

/// Both ends up to the greeting's proof.
struct Ends {
  Ends(const std::string& client_token, const std::string& server_token)
      : client(client_token), server(client.hello()), token(server_token) {
    greeting = client.greeting(server.challenge(), kWho);
    greeted = server.read_greeting(token, greeting);
  }
  ClientHandshake client;
  ServerHandshake server;
  std::string token;
  Bytes greeting;
  ServerHandshake::ClientIdentity greeted;
};

}  // namespace

TEST_CASE("handshake: two that know the token believe each other") {
  for (const std::string& token : {std::string("a token"), std::string(), std::string(1024, 'x')}) {
    const Ends ends(token, token);
    CHECK(ends.greeted.knows_token);
    CHECK(ends.greeted.who.packed() == kWho.packed());
    const auto welcome = ends.client.result_of(FrameKind::welcome, ends.server.welcome(token, "n0"));
    CHECK(welcome.kind == Kind::welcome);
    CHECK(welcome.host == "n0");
    const auto refused = ends.client.result_of(FrameKind::refused, ends.server.refused(token, {ExitCode::usage, "other -t"}));
    CHECK(refused.kind == Kind::refused);
    CHECK(refused.why.exit == ExitCode::usage);
    CHECK(refused.why.message == "other -t");
  }
}

TEST_CASE("handshake: neither believes one that does not know the token") {
  const Ends ends("a token", "another");
  CHECK_FALSE(ends.greeted.knows_token);
  CHECK(ends.client.result_of(FrameKind::refused, {}).kind == Kind::other_token);
  CHECK(ends.client.result_of(FrameKind::welcome, ends.server.welcome("another", "n0")).kind == Kind::stranger);
  CHECK(ends.client.result_of(FrameKind::refused, ends.server.refused("another", {ExitCode::usage, "no"})).kind ==
        Kind::stranger);
}

TEST_CASE("handshake: the token is in nothing that is said") {
  const std::string token = "0123456789abcdef";
  const Ends ends(token, token);
  for (const Bytes& said :
       {ends.client.hello(), ends.server.challenge(), ends.greeting, ends.server.welcome(token, "n0")}) {
    const std::string text(reinterpret_cast<const char*>(said.data()), said.size());
    for (std::size_t i = 0; i + 4 <= token.size(); ++i) CHECK(text.find(token.substr(i, 4)) == text.npos);
  }
}

TEST_CASE("handshake: what was heard on one connection is worth nothing on another") {
  const std::string token = "a token";
  const Ends one(token, token), other(token, token);
  CHECK_FALSE(other.server.read_greeting(token, one.greeting).knows_token);
  CHECK(other.client.result_of(FrameKind::welcome, one.server.welcome(token, "n0")).kind == Kind::stranger);
  // Nor is what one end says a proof of the other.
  const Bytes& echoed = one.greeting;
  CHECK(one.client.result_of(FrameKind::welcome, echoed).kind == Kind::stranger);
  const Bytes welcome = one.server.welcome(token, "n0");
  CHECK(one.client.result_of(FrameKind::refused, welcome).kind == Kind::stranger);
}

TEST_CASE("handshake: every bit of what is proved counts") {
  const std::string token = "a token";
  const Ends ends(token, token);
  for (std::size_t i = 0; i < ends.greeting.size(); ++i) {
    Bytes changed = ends.greeting;
    changed[i] ^= std::byte{0x10};
    bool is_believed = false;
    try {
      is_believed = ends.server.read_greeting(token, changed).knows_token;
    } catch (const BrokenMessage&) {  // its lengths are no lengths any more
    }
    CHECK_FALSE(is_believed);
  }
  const Bytes welcome = ends.server.welcome(token, "n0");
  for (std::size_t i = 0; i < welcome.size(); ++i) {
    Bytes changed = welcome;
    changed[i] ^= std::byte{0x10};
    CHECK(ends.client.result_of(FrameKind::welcome, changed).kind == Kind::stranger);
  }
}

TEST_CASE("handshake: what is too short is broken or a stranger's, and other frames are a stranger's") {
  const std::string token = "a token";
  const Ends ends(token, token);
  const Bytes hello = ends.client.hello();
  for (std::size_t length = 0; length < hello.size(); ++length)
    CHECK_THROWS_AS(ServerHandshake(std::span(hello).first(length)), BrokenMessage);
  Bytes wrong = hello;
  wrong[0] ^= std::byte{1};
  CHECK_THROWS_AS(ServerHandshake{wrong}, BrokenMessage);
  ClientHandshake client(token);
  const Bytes challenge = ends.server.challenge();
  CHECK_THROWS_AS(client.greeting(std::span(challenge).first(15), kWho), BrokenMessage);
  for (std::size_t length = 0; length < 32; ++length)
    CHECK_THROWS_AS(ends.server.read_greeting(token, std::span(ends.greeting).first(length)), BrokenMessage);
  const Bytes welcome = ends.server.welcome(token, "n0");
  for (std::size_t length = 0; length < welcome.size(); ++length)
    CHECK(ends.client.result_of(FrameKind::welcome, std::span(welcome).first(length)).kind == Kind::stranger);
  for (const FrameKind kind : {FrameKind::hello, FrameKind::challenge, FrameKind::greeting, FrameKind::answer, static_cast<FrameKind>(200)})
    CHECK(ends.client.result_of(kind, welcome).kind == Kind::stranger);
}

TEST_CASE("handshake: the ends of two versions know both") {
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
    const auto verdict = client.result_of(FrameKind::hello, hello);
    CHECK(verdict.kind == Kind::other_version);
    CHECK(verdict.version == other);
  }
  for (const char none : {'\0', ' ', '\x1b', '\xff'}) {
    Bytes hello = own;
    hello[7] = static_cast<std::byte>(none);
    CHECK_THROWS_AS(version_of_hello(hello), BrokenMessage);
    CHECK(client.result_of(FrameKind::hello, hello).kind == Kind::stranger);
  }
  for (std::size_t length = 0; length < 8; ++length) {
    CHECK_THROWS_AS(version_of_hello(std::span(own).first(length)), BrokenMessage);
    CHECK(client.result_of(FrameKind::hello, std::span(own).first(length)).kind == Kind::stranger);
  }
  CHECK(client.result_of(FrameKind::hello, own).kind == Kind::stranger);  // of this version nobody says it
  const Ends ends("a token", "a token");
  Bytes late = own;
  late[7] = std::byte{'9'};
  CHECK(ends.client.result_of(FrameKind::hello, late).kind == Kind::stranger);
}

TEST_CASE("handshake: a client answers one challenge, and believes nothing before it has greeted") {
  ClientHandshake client("a token");
  ServerHandshake server(client.hello());
  CHECK(client.result_of(FrameKind::refused, {}).kind == Kind::stranger);
  static_cast<void>(client.greeting(server.challenge(), kWho));
  CHECK(client.result_of(FrameKind::refused, {}).kind == Kind::other_token);
  CHECK_THROWS_AS(client.greeting(server.challenge(), kWho), BrokenMessage);
}
