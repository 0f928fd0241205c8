#include "backends/host/sockets/socket_connector.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "common/os/ticker.hpp"
#include "common/support/error.hpp"
#include "support_errors.hpp"
#include "support_sockets.hpp"

using namespace busbw;

namespace {

std::vector<Endpoint> addresses(const std::vector<std::string>& texts) {
  std::vector<Endpoint> all;
  for (const std::string& text : texts) all.push_back(endpoint_of(text, 0));
  return all;
}

/// Polls and ticks like the owner, until the connector has connected or failed.
template <class EachRound>
void run(SocketConnector& connector, EachRound each_round) {
  for (int round = 0; round < 1000 && !connector.connected() && !connector.failed(); ++round) {
    pollfd polled = connector.interest();
    if (poll(&polled, 1, 1) > 0) connector.on_ready();
    each_round();
    connector.tick();
  }
}

}  // namespace

TEST_CASE("SocketConnector: tries addresses in turn until the right peer answers") {
  SocketAcceptor acceptor(1, ListenScope::this_host);
  const int port = acceptor.credentials().port;
  // The same port on other loopback addresses: one refuses, one is silent, one answers with other data.
  const Descriptor silent = listen_at(endpoint_of("127.0.0.3", port));
  const Descriptor other = listen_at(endpoint_of("127.0.0.4", port));
  std::vector<Descriptor> answered;
  SocketConnector connector(addresses({"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.1"}), acceptor.credentials(), 0,
                            1);
  std::vector<SocketAcceptor::AcceptedConnection> accepted_connections;
  const auto world = [&] {
    Descriptor accepted(accept(other.number(), nullptr, nullptr));
    if (accepted.is_open()) {
      send_bytes(accepted, "SSH-2.0-something else");
      answered.push_back(std::move(accepted));
    }
    serve(acceptor, 1);
    for (auto& accepted_connection : acceptor.take_accepted())
      accepted_connections.push_back(std::move(accepted_connection));
  };
  run(connector, world);
  REQUIRE(connector.connected());
  for (int round = 0; round < 100 && accepted_connections.empty(); ++round) world();
  REQUIRE(accepted_connections.size() == 1);
  CHECK(accepted_connections[0].rank == 0);
  const Descriptor connection = connector.take_connection();
  send_bytes(connection, "x");
  pollfd polled{accepted_connections[0].connection.number(), POLLIN, 0};
  REQUIRE(poll(&polled, 1, 60'000) == 1);
  char byte = 0;
  CHECK(recv(accepted_connections[0].connection.number(), &byte, 1, 0) == 1);
  CHECK(byte == 'x');
  check_names(connector.attempts_text(), {"127.0.0.2:" + std::to_string(port) + " (Connection refused)",
                                          "127.0.0.3:" + std::to_string(port) + " (connected, but no answer)",
                                          "127.0.0.4:" + std::to_string(port) + " (the answer is not from this job)"});
}

TEST_CASE("SocketConnector: the first round skips an unreachable address quickly") {
  SocketAcceptor acceptor(1, ListenScope::this_host);
  // A listener with a full queue does not answer, like an address behind a firewall.
  const Endpoint full = endpoint_of("127.0.0.2", acceptor.credentials().port);
  const Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(bind(listener.number(), reinterpret_cast<const sockaddr*>(&full.address), full.length) == 0);
  REQUIRE(listen(listener.number(), 0) == 0);
  const ConnectResult queued = connect_to(full, kTicksPerS, [] { return false; });
  REQUIRE(queued.socket.is_open());
  REQUIRE_FALSE(connect_to(full, 1, [] { return false; }).socket.is_open());
  SocketConnector connector(addresses({"127.0.0.2", "127.0.0.1"}), acceptor.credentials(), 0, 1);
  int rounds = 0;
  int passed_over = 0;
  run(connector, [&] {
    ++rounds;
    if (passed_over == 0 && connector.attempts_text().find("(no answer)") != std::string::npos) passed_over = rounds;
    serve(acceptor, 1);
  });
  CHECK(connector.connected());
  CHECK(passed_over == SocketConnector::kConnectTicks[0] + 1);
}

TEST_CASE("SocketConnector: a connection that was made during a pause of the process is kept") {
  SocketAcceptor acceptor(1, ListenScope::this_host);
  SocketConnector connector(addresses({"127.0.0.1", "127.0.0.2"}), acceptor.credentials(), 0, 1);
  for (int tick = 0; tick < SocketConnector::kConnectTicks[0]; ++tick) connector.tick();
  CHECK(connector.attempts_text().find("no answer") == std::string::npos);
  run(connector, [&] { serve(acceptor, 1); });
  CHECK(connector.connected());
}

TEST_CASE("SocketConnector: fails when every address has failed in every round, and reports the outcomes") {
  ListenerCredentials credentials;
  {
    const Descriptor listener = listen_at(endpoint_of("127.0.0.1", 0));
    credentials = new_listener_credentials(static_cast<std::uint16_t>(local_endpoint(listener).port()));
  }
  SocketConnector connector(addresses({"127.0.0.1", "127.0.0.2"}), credentials, 0, 1);
  int rounds = 0;
  run(connector, [&] { ++rounds; });
  CHECK(connector.failed());
  CHECK_FALSE(connector.connected());
  const int pauses = static_cast<int>(SocketConnector::kConnectTicks.size()) - 1;
  CHECK(rounds >= pauses * SocketConnector::kPauseTicks);
  check_names(connector.attempts_text(),
              {"127.0.0.1:" + std::to_string(credentials.port) + " (Connection refused)", "127.0.0.2:"});
}

TEST_CASE("SocketConnector: a peer that closes is tried again; a peer without addresses fails") {
  const Descriptor listener = listen_at(endpoint_of("127.0.0.1", 0));
  const ListenerCredentials credentials =
      new_listener_credentials(static_cast<std::uint16_t>(local_endpoint(listener).port()));
  SocketConnector connector(addresses({"127.0.0.1"}), credentials, 0, 1);
  int accepted = 0;
  run(connector, [&] { accepted += Descriptor(accept(listener.number(), nullptr, nullptr)).is_open() ? 1 : 0; });
  CHECK(connector.failed());
  CHECK(accepted ==
        static_cast<int>(SocketConnector::kConnectTicks.size()) - 1);  // no short round for a single address
  SocketConnector nowhere({}, credentials, 0, 1);
  CHECK(nowhere.failed());
  CHECK(nowhere.attempts_text() == "no address to try");
}

TEST_CASE("throw_out_of_descriptors: names the limit to raise") {
  check_names(sentence_of<EnvironmentError>([] { throw_out_of_descriptors(EMFILE); }), {"ulimit -n"});
}
