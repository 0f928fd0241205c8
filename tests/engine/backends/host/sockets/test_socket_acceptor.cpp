#include "backends/host/sockets/socket_acceptor.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "common/support/constant_time_equal.hpp"
#include "support_sockets.hpp"

using namespace busbw;

namespace {

ConnectRequest::Encoded request_for(const SocketAcceptor& acceptor, int from, int to) {
  return ConnectRequest{from, to, acceptor.credentials().secret}.encoded();
}

/// Reads the bytes that follow the confirmation on an accepted connection.
std::string next_bytes(const SocketAcceptor::AcceptedConnection& accepted_connection) {
  char text[16] = {};
  pollfd polled{accepted_connection.connection.number(), POLLIN, 0};
  poll(&polled, 1, 60'000);
  const ssize_t got = recv(accepted_connection.connection.number(), text, sizeof text, 0);
  return std::string(text, got > 0 ? static_cast<std::size_t>(got) : 0);
}

}  // namespace

TEST_CASE("SocketAcceptor: a peer with the secret is answered and accepted; its later bytes stay in the socket") {
  SocketAcceptor acceptor(3, ListenScope::this_host);
  const Descriptor peer = connect_to_port(acceptor.credentials().port);
  REQUIRE(peer.is_open());
  const auto request = request_for(acceptor, 2, 3);
  send_bytes(peer, std::span(request).first(5));
  serve(acceptor);
  send_bytes(peer, std::span(request).subspan(5));
  for (int i = 0; i < 3; ++i) serve(acceptor);
  CHECK(acceptor.take_accepted().empty());  // not yet confirmed
  ListenerCredentials::Secret answer{};
  REQUIRE(recv(peer.number(), answer.data(), answer.size(), MSG_WAITALL) == static_cast<ssize_t>(answer.size()));
  CHECK(constant_time_equal(answer, acceptor.credentials().answer));
  send_bytes(peer, "!data");
  std::vector<SocketAcceptor::AcceptedConnection> accepted_connections;
  REQUIRE(serve_until(acceptor, [&] { return !(accepted_connections = acceptor.take_accepted()).empty(); }));
  REQUIRE(accepted_connections.size() == 1);
  CHECK(accepted_connections[0].rank == 2);
  CHECK(next_bytes(accepted_connections[0]) == "data");
  CHECK(acceptor.rejected() == 0);
  CHECK(acceptor.take_accepted().empty());
}

TEST_CASE("SocketAcceptor: invalid requests are rejected") {
  SocketAcceptor acceptor(3, ListenScope::all_addresses);
  const int port = acceptor.credentials().port;
  auto wrong_secret = request_for(acceptor, 0, 3);
  wrong_secret.back() ^= std::byte{1};
  std::size_t expected = 0;
  for (const auto& bytes : {request_for(acceptor, 3, 3), request_for(acceptor, -1, 3), request_for(acceptor, 0, 2),
                            request_for(acceptor, 99, 3), wrong_secret, ConnectRequest::Encoded{}}) {
    const Descriptor invalid_connection = connect_to_port(port);
    send_bytes(invalid_connection, bytes);
    ++expected;
    REQUIRE(serve_until(acceptor, [&] { return acceptor.rejected() == expected; }));
    CHECK(is_closed(invalid_connection));
  }
  const Descriptor scan = connect_to_port(port);
  send_bytes(scan, "GET / HTTP/1.1\r\nHost: somewhere.example.org\r\n\r\n");
  ++expected;
  REQUIRE(serve_until(acceptor, [&] { return acceptor.rejected() == expected; }));
  CHECK(is_closed(scan));
  // Sends half a request and closes.
  Descriptor half = connect_to_port(port);
  const auto request = request_for(acceptor, 0, 3);
  send_bytes(half, std::span(request).first(20));
  serve(acceptor);
  half.close();
  ++expected;
  REQUIRE(serve_until(acceptor, [&] { return acceptor.rejected() == expected; }));
  // Sends a valid request and then a wrong confirmation.
  const Descriptor wrong_confirmation = connect_to_port(port);
  send_bytes(wrong_confirmation, request_for(acceptor, 0, 3));
  ListenerCredentials::Secret answer{};
  REQUIRE(serve_until(
      acceptor, [&] { return recv(wrong_confirmation.number(), answer.data(), answer.size(), MSG_DONTWAIT) > 0; }));
  send_bytes(wrong_confirmation, "?");
  ++expected;
  REQUIRE(serve_until(acceptor, [&] { return acceptor.rejected() == expected; }));
  CHECK(acceptor.take_accepted().empty());
}

TEST_CASE("SocketAcceptor: a silent connection is rejected after the limit, an authenticated one is not") {
  SocketAcceptor acceptor(1, ListenScope::this_host);
  const Descriptor silent = connect_to_port(acceptor.credentials().port);
  const Descriptor authenticated = connect_to_port(acceptor.credentials().port);
  send_bytes(authenticated, request_for(acceptor, 0, 1));
  ListenerCredentials::Secret answer{};
  REQUIRE(serve_until(acceptor,
                      [&] { return recv(authenticated.number(), answer.data(), answer.size(), MSG_DONTWAIT) > 0; }));
  for (int tick = 1; tick < SocketAcceptor::kRequestLimitTicks; ++tick) acceptor.tick();
  CHECK(acceptor.rejected() == 0);
  acceptor.tick();
  CHECK(acceptor.rejected() == 1);
  CHECK(is_closed(silent));
  send_bytes(authenticated, "!");
  CHECK(serve_until(acceptor, [&] { return !acceptor.take_accepted().empty(); }));
}

TEST_CASE("SocketAcceptor: too many pending connections reject the oldest, and a peer is still accepted") {
  SocketAcceptor acceptor(1, ListenScope::this_host);
  std::vector<Descriptor> pending;
  for (std::size_t i = 0; i < 3 * SocketAcceptor::kMaxPendingConnections; ++i) {
    pending.push_back(connect_to_port(acceptor.credentials().port));
    REQUIRE(pending.back().is_open());
  }
  REQUIRE(serve_until(
      acceptor, [&] { return acceptor.rejected() >= pending.size() - SocketAcceptor::kMaxPendingConnections - 1; }));
  CHECK(is_closed(pending.front()));
  std::vector<pollfd> polled;
  acceptor.add_interests(polled);
  CHECK(polled.size() <= SocketAcceptor::kMaxPendingConnections + 2);
  SocketConnector connector({endpoint_of("127.0.0.1", 0)}, acceptor.credentials(), 0, 1);
  std::vector<SocketAcceptor::AcceptedConnection> accepted_connections;
  for (int round = 0; round < 600 && accepted_connections.empty(); ++round) {
    serve(acceptor);
    if (!connector.connected()) poll_once(connector);
    accepted_connections = acceptor.take_accepted();
  }
  CHECK(connector.connected());
  REQUIRE(accepted_connections.size() == 1);
}
