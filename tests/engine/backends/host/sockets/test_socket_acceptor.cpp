#include "backends/host/sockets/socket_acceptor.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "common/support/constant_time_equal.hpp"
#include "support_sockets.hpp"

using namespace busbw;

namespace {

ConnectRequest::Encoded greeting_for(const SocketAcceptor& visitors, int from, int to) {
  return ConnectRequest{from, to, visitors.door().secret}.encoded();
}

/// The bytes of a guest's connection that came behind the confirmation.
std::string next_bytes(const SocketAcceptor::AcceptedConnection& guest) {
  char text[16] = {};
  pollfd polled{guest.connection.number(), POLLIN, 0};
  poll(&polled, 1, 60'000);
  const ssize_t got = recv(guest.connection.number(), text, sizeof text, 0);
  return std::string(text, got > 0 ? static_cast<std::size_t>(got) : 0);
}

}  // namespace

TEST_CASE("SocketVisitors: who knows the secret is answered and let in; what it says next is left for its reader") {
  SocketAcceptor visitors(3, ListenScope::this_host);
  const Descriptor peer = stranger_at(visitors.door().port);
  REQUIRE(peer.is_open());
  const auto greeting = greeting_for(visitors, 2, 3);
  say(peer, std::span(greeting).first(5));
  serve(visitors);
  say(peer, std::span(greeting).subspan(5));
  for (int i = 0; i < 3; ++i) serve(visitors);
  CHECK(visitors.take_accepted().empty());  // not yet confirmed
  ListenerCredentials::Secret answer{};
  REQUIRE(recv(peer.number(), answer.data(), answer.size(), MSG_WAITALL) == static_cast<ssize_t>(answer.size()));
  CHECK(constant_time_equal(answer, visitors.door().answer));
  say(peer, "!data");
  std::vector<SocketAcceptor::AcceptedConnection> guests;
  REQUIRE(serve_until(visitors, [&] { return !(guests = visitors.take_accepted()).empty(); }));
  REQUIRE(guests.size() == 1);
  CHECK(guests[0].rank == 2);
  CHECK(next_bytes(guests[0]) == "data");
  CHECK(visitors.rejected() == 0);
  CHECK(visitors.take_accepted().empty());
}

TEST_CASE("SocketVisitors: strangers are shut out, whatever they say") {
  SocketAcceptor visitors(3, ListenScope::every_where);
  const int port = visitors.door().port;
  auto wrong_secret = greeting_for(visitors, 0, 3);
  wrong_secret.back() ^= std::byte{1};
  std::size_t expected = 0;
  for (const auto& said : {greeting_for(visitors, 3, 3), greeting_for(visitors, -1, 3), greeting_for(visitors, 0, 2),
                           greeting_for(visitors, 99, 3), wrong_secret, ConnectRequest::Encoded{}}) {
    const Descriptor stranger = stranger_at(port);
    say(stranger, said);
    ++expected;
    REQUIRE(serve_until(visitors, [&] { return visitors.rejected() == expected; }));
    CHECK(is_shut_out(stranger));
  }
  const Descriptor scan = stranger_at(port);
  say(scan, "GET / HTTP/1.1\r\nHost: somewhere.example.org\r\n\r\n");
  ++expected;
  REQUIRE(serve_until(visitors, [&] { return visitors.rejected() == expected; }));
  CHECK(is_shut_out(scan));
  // Comes, says half a greeting, and goes.
  Descriptor half = stranger_at(port);
  const auto greeting = greeting_for(visitors, 0, 3);
  say(half, std::span(greeting).first(20));
  serve(visitors);
  half.close();
  ++expected;
  REQUIRE(serve_until(visitors, [&] { return visitors.rejected() == expected; }));
  // Greets rightly and then confirms wrongly.
  const Descriptor rude = stranger_at(port);
  say(rude, greeting_for(visitors, 0, 3));
  ListenerCredentials::Secret answer{};
  REQUIRE(serve_until(visitors, [&] { return recv(rude.number(), answer.data(), answer.size(), MSG_DONTWAIT) > 0; }));
  say(rude, "?");
  ++expected;
  REQUIRE(serve_until(visitors, [&] { return visitors.rejected() == expected; }));
  CHECK(visitors.take_accepted().empty());
}

TEST_CASE("SocketVisitors: who says nothing is shut out after a while, who has greeted is not") {
  SocketAcceptor visitors(1, ListenScope::this_host);
  const Descriptor silent = stranger_at(visitors.door().port);
  const Descriptor greeted = stranger_at(visitors.door().port);
  say(greeted, greeting_for(visitors, 0, 1));
  ListenerCredentials::Secret answer{};
  REQUIRE(
      serve_until(visitors, [&] { return recv(greeted.number(), answer.data(), answer.size(), MSG_DONTWAIT) > 0; }));
  for (int tick = 1; tick < SocketAcceptor::kGreetingLimitTicks; ++tick) visitors.tick();
  CHECK(visitors.rejected() == 0);
  visitors.tick();
  CHECK(visitors.rejected() == 1);
  CHECK(is_shut_out(silent));
  say(greeted, "!");
  CHECK(serve_until(visitors, [&] { return !visitors.take_accepted().empty(); }));
}

TEST_CASE("SocketVisitors: of too many strangers the first go, and a peer is still let in") {
  SocketAcceptor visitors(1, ListenScope::this_host);
  std::vector<Descriptor> crowd;
  for (std::size_t i = 0; i < 3 * SocketAcceptor::kMaxPendingConnections; ++i) {
    crowd.push_back(stranger_at(visitors.door().port));
    REQUIRE(crowd.back().is_open());
  }
  REQUIRE(
      serve_until(visitors, [&] { return visitors.rejected() >= crowd.size() - SocketAcceptor::kMaxPendingConnections - 1; }));
  CHECK(is_shut_out(crowd.front()));
  std::vector<pollfd> polled;
  visitors.add_interests(polled);
  CHECK(polled.size() <= SocketAcceptor::kMaxPendingConnections + 2);
  SocketConnector caller({endpoint_of("127.0.0.1", 0)}, visitors.door(), 0, 1);
  std::vector<SocketAcceptor::AcceptedConnection> guests;
  for (int round = 0; round < 600 && guests.empty(); ++round) {
    serve(visitors);
    if (!caller.connected()) proceed(caller);
    guests = visitors.take_accepted();
  }
  CHECK(caller.connected());
  REQUIRE(guests.size() == 1);
}
