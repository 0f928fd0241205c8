#include "backends/host/sockets/socket_acceptor.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "support_sockets.hpp"

using namespace busbw;
using namespace busbw::test;

TEST_CASE("SocketAcceptor: a lower rank with the token is welcomed; a slow handshake as well") {
  SocketAcceptor acceptor(3, ListenScope::this_host);
  CHECK(acceptor.token() != SocketAcceptor(3, ListenScope::this_host).token());
  std::thread peer([&, where = loopback(acceptor.port()), token = acceptor.token()] {
    RawClient slow(where);
    for (const std::byte one : slow.greeting(greeting_of(2), token)) slow.send(std::span(&one, 1));
    const auto answer = slow.receive_frame();
    CHECK((answer && answer->kind == FrameKind::welcome));
    slow.send("data");
    CHECK(slow.is_rejected());  // the test closes the connection
  });
  {
    auto accepted = serve_until(acceptor, [](const auto& connections) { return !connections.empty(); });
    REQUIRE(accepted.size() == 1);
    CHECK(accepted[0].rank == 2);
    char text[4] = {};
    pollfd waiting{accepted[0].connection.number(), POLLIN, 0};
    REQUIRE(poll(&waiting, 1, kTimeoutMs) == 1);
    CHECK(recv(accepted[0].connection.number(), text, sizeof text, 0) == 4);
  }
  peer.join();
  CHECK(acceptor.rejected() == 0);
}

TEST_CASE("SocketAcceptor: connections without the token, and other ranks, are rejected without a welcome") {
  SocketAcceptor acceptor(3, ListenScope::all_addresses);
  const std::string token = acceptor.token();
  RawClient earlier(loopback(acceptor.port()));
  Bytes recorded;
  {
    const ServingThread serving(acceptor);
    recorded = earlier.greeting(greeting_of(0), token);
  }
  const auto greet_as = [&](int rank, const std::string& used_token) {
    return [=](RawClient& client) { client.send(client.greeting(greeting_of(rank), used_token)); };
  };
  std::string almost_right = token;
  almost_right.back() = static_cast<char>(almost_right.back() ^ 1);
  const std::vector<std::function<void(RawClient&)>> scripts{
      greet_as(3, token),
      greet_as(-1, token),
      greet_as(99, token),
      greet_as(0, almost_right),
      greet_as(0, ""),
      [](RawClient& client) { client.send("GET / HTTP/1.1\r\nHost: somewhere.example.org\r\n\r\n"); },
      [](RawClient& client) { client.send(MessageWriter().add(std::uint32_t{kMaxGreetingBytes + 1}).bytes()); },
      [](RawClient& client) { client.send(FrameKind::hello, bytes_of("short")); },
      [](RawClient& client) { client.send(FrameKind::request, {}); },
      [&](RawClient& client) { client.send(recorded); },  // without a hello
      [&](RawClient& client) {                            // replays a greeting of another connection
        static_cast<void>(client.greeting(greeting_of(0), token));
        client.send(recorded);
      },
      [](RawClient& client) { client.reset(); }};
  {
    const ServingThread serving(acceptor);
    for (std::size_t i = 0; i < scripts.size(); ++i) {
      CAPTURE(i);
      RawClient client(loopback(acceptor.port()));
      scripts[i](client);
      if (client.socket().is_open()) CHECK(text_of(client.receive_all().value_or(bytes_of("timeout"))).empty());
    }
    CHECK(serving.accepted() == 0);
  }
  serve_until(acceptor, [&](const auto&) { return acceptor.rejected() == scripts.size(); });
  CHECK(acceptor.rejected() == scripts.size());
}

TEST_CASE("SocketAcceptor: an unfinished handshake is rejected after the limit") {
  SocketAcceptor acceptor(1, ListenScope::this_host, /*handshake_limit_ticks=*/2);
  const RawClient silent(loopback(acceptor.port()));
  RawClient only_hello(loopback(acceptor.port()));
  only_hello.send(FrameKind::hello, ClientHandshake("").hello());
  serve_until(acceptor, [&](const auto&) { return acceptor.rejected() == 2; });
  CHECK(acceptor.rejected() == 2);
  CHECK(acceptor.pending() == 0);
}

TEST_CASE("SocketAcceptor: too many pending connections reject the oldest, and a peer is still accepted") {
  SocketAcceptor acceptor(1, ListenScope::this_host);
  std::vector<RawClient> flood;
  for (std::size_t i = 0; i < 3 * SocketAcceptor::kMaxPendingConnections; ++i)
    flood.emplace_back(loopback(acceptor.port()));
  serve_until(acceptor, [&](const auto&) {
    CHECK(acceptor.pending() <= SocketAcceptor::kMaxPendingConnections + 1);
    return acceptor.rejected() >= flood.size() - SocketAcceptor::kMaxPendingConnections - 1;
  });
  CHECK(flood.front().is_rejected());
  const ServingThread serving(acceptor);
  TcpChannel peer(connected_to(loopback(acceptor.port())));
  CHECK(greet(peer, greeting_of(0), acceptor.token()).kind == ClientHandshake::HandshakeResult::Kind::welcome);
}
