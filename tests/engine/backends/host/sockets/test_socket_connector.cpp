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

/// Polls and ticks until the caller has come to an end, as its owner does.
template <class EachRound>
void run(SocketConnector& caller, EachRound each_round) {
  for (int round = 0; round < 1000 && !caller.connected() && !caller.failed(); ++round) {
    pollfd polled = caller.interest();
    if (poll(&polled, 1, 1) > 0) caller.on_ready();
    each_round();
    caller.tick();
  }
}

}  // namespace

TEST_CASE("SocketCaller: goes from one address to the next until the right peer answers") {
  SocketAcceptor visitors(1, ListenScope::this_host);
  const int port = visitors.door().port;
  // The same port on other addresses of loopback: one refuses, one says nothing, one says something else.
  const Descriptor silent = listen_at(endpoint_of("127.0.0.3", port));
  const Descriptor other = listen_at(endpoint_of("127.0.0.4", port));
  std::vector<Descriptor> answered;
  SocketConnector caller(addresses({"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.1"}), visitors.door(), 0, 1);
  std::vector<SocketAcceptor::AcceptedConnection> guests;
  const auto world = [&] {
    Descriptor accepted(accept(other.number(), nullptr, nullptr));
    if (accepted.is_open()) {
      say(accepted, "SSH-2.0-something else");
      answered.push_back(std::move(accepted));
    }
    serve(visitors, 1);
    for (auto& guest : visitors.take_accepted()) guests.push_back(std::move(guest));
  };
  run(caller, world);
  REQUIRE(caller.connected());
  for (int round = 0; round < 100 && guests.empty(); ++round) world();
  REQUIRE(guests.size() == 1);
  CHECK(guests[0].rank == 0);
  const Descriptor connection = caller.take_connection();
  say(connection, "x");
  pollfd polled{guests[0].connection.number(), POLLIN, 0};
  REQUIRE(poll(&polled, 1, 60'000) == 1);
  char byte = 0;
  CHECK(recv(guests[0].connection.number(), &byte, 1, 0) == 1);
  CHECK(byte == 'x');
  check_names(caller.tried(), {"127.0.0.2:" + std::to_string(port) + " (Connection refused)",
                               "127.0.0.3:" + std::to_string(port) + " (connected, but no answer)",
                               "127.0.0.4:" + std::to_string(port) + " (something else answers there)"});
}

TEST_CASE("SocketCaller: an address from which nothing comes is passed over quickly at first") {
  SocketAcceptor visitors(1, ListenScope::this_host);
  // A listener whose queue is full answers no more, as an address behind a firewall does.
  const Endpoint full = endpoint_of("127.0.0.2", visitors.door().port);
  const Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(bind(listener.number(), reinterpret_cast<const sockaddr*>(&full.address), full.length) == 0);
  REQUIRE(listen(listener.number(), 0) == 0);
  const ConnectResult queued = connect_to(full, kTicksPerS, [] { return false; });
  REQUIRE(queued.socket.is_open());
  REQUIRE_FALSE(connect_to(full, 1, [] { return false; }).socket.is_open());
  SocketConnector caller(addresses({"127.0.0.2", "127.0.0.1"}), visitors.door(), 0, 1);
  int rounds = 0;
  int passed_over = 0;
  run(caller, [&] {
    ++rounds;
    if (passed_over == 0 && caller.tried().find("(no answer)") != std::string::npos) passed_over = rounds;
    serve(visitors, 1);
  });
  CHECK(caller.connected());
  CHECK(passed_over == SocketConnector::kConnectTicks[0] + 1);
}

TEST_CASE("SocketCaller: a connection that was made while the process had no turn is not given up") {
  SocketAcceptor visitors(1, ListenScope::this_host);
  SocketConnector caller(addresses({"127.0.0.1", "127.0.0.2"}), visitors.door(), 0, 1);
  for (int tick = 0; tick < SocketConnector::kConnectTicks[0]; ++tick) caller.tick();
  CHECK(caller.tried().find("no answer") == std::string::npos);
  run(caller, [&] { serve(visitors, 1); });
  CHECK(caller.connected());
}

TEST_CASE("SocketCaller: fails when every address has failed in every round, and says how") {
  ListenerCredentials door;
  {
    const Descriptor listener = listen_at(endpoint_of("127.0.0.1", 0));
    door = new_listener_credentials(static_cast<std::uint16_t>(local_endpoint(listener).port()));
  }
  SocketConnector caller(addresses({"127.0.0.1", "127.0.0.2"}), door, 0, 1);
  int rounds = 0;
  run(caller, [&] { ++rounds; });
  CHECK(caller.failed());
  CHECK_FALSE(caller.connected());
  const int pauses = static_cast<int>(SocketConnector::kConnectTicks.size()) - 1;
  CHECK(rounds >= pauses * SocketConnector::kPauseTicks);
  check_names(caller.tried(), {"127.0.0.1:" + std::to_string(door.port) + " (Connection refused)", "127.0.0.2:"});
}

TEST_CASE("SocketCaller: a peer that closes is tried again; one without addresses has failed") {
  const Descriptor listener = listen_at(endpoint_of("127.0.0.1", 0));
  const ListenerCredentials door = new_listener_credentials(static_cast<std::uint16_t>(local_endpoint(listener).port()));
  SocketConnector caller(addresses({"127.0.0.1"}), door, 0, 1);
  int accepted = 0;
  run(caller, [&] { accepted += Descriptor(accept(listener.number(), nullptr, nullptr)).is_open() ? 1 : 0; });
  CHECK(caller.failed());
  CHECK(accepted == static_cast<int>(SocketConnector::kConnectTicks.size()) - 1);  // no quick round for one address
  SocketConnector nowhere({}, door, 0, 1);
  CHECK(nowhere.failed());
  CHECK(nowhere.tried() == "it has no address to try");
}

TEST_CASE("too_many_descriptors: says what to raise") {
  check_names(sentence_of<EnvironmentError>([] { throw_out_of_descriptors(EMFILE); }), {"ulimit -n"});
}
