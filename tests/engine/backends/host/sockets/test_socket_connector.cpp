#include "backends/host/sockets/socket_connector.hpp"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <thread>
#include <vector>

#include "common/support/error.hpp"
#include "rendezvous/channel/handshake.hpp"
#include "support_errors.hpp"
#include "support_sockets.hpp"

using namespace busbw;
using namespace busbw::test;

namespace {

std::vector<Endpoint> endpoints(const std::vector<std::string>& hosts, int port) {
  std::vector<Endpoint> all;
  for (const std::string& host : hosts) all.push_back(endpoint_of(host, port));
  return all;
}

}  // namespace

TEST_CASE("connect_to_rank: tries addresses in turn until the right peer answers") {
  SocketAcceptor acceptor(1, ListenScope::this_host);
  const ServingThread serving(acceptor);
  const int port = acceptor.port();
  // The same port on other loopback addresses: one refuses, one answers with other data, one has another token.
  const Descriptor other = listen_at(endpoint_of("127.0.0.3", port));
  std::thread other_program([&] {
    pollfd waiting{other.number(), POLLIN, 0};
    REQUIRE(poll(&waiting, 1, kTimeoutMs) == 1);
    const Descriptor accepted(accept(other.number(), nullptr, nullptr));
    static_cast<void>(!send(accepted.number(), "SSH-2.0-x\r\n", 11, MSG_NOSIGNAL));
  });
  const ConnectResult connected =
      connect_to_rank(endpoints({"127.0.0.2", "127.0.0.3", "127.0.0.1"}, port), acceptor.token(), 0, [] {});
  other_program.join();
  CHECK(connected.socket.is_open());
  CHECK(connected.message.empty());
}

TEST_CASE("connect_to_rank: the first round skips an unreachable address quickly") {
  SocketAcceptor acceptor(1, ListenScope::this_host);
  const ServingThread serving(acceptor);
  // A listener with a full queue does not answer, like an address behind a firewall.
  const Endpoint full = endpoint_of("127.0.0.2", acceptor.port());
  const Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(bind(listener.number(), reinterpret_cast<const sockaddr*>(&full.address), full.length) == 0);
  REQUIRE(listen(listener.number(), 0) == 0);
  const ConnectResult queued = connect_to(full, kTicksPerS, [] { return false; });
  REQUIRE(queued.socket.is_open());
  REQUIRE_FALSE(connect_to(full, 1, [] { return false; }).socket.is_open());
  int ticks = 0;
  CHECK(connect_to_rank(endpoints({"127.0.0.2", "127.0.0.1"}, acceptor.port()), acceptor.token(), 0, [&] {
          ++ticks;
        }).socket.is_open());
  CHECK(ticks >= kConnectTicks[0]);
  CHECK(ticks < kConnectTicks[1]);
}

TEST_CASE("connect_to_rank: if every address fails in every round, the message lists the outcomes") {
  SocketAcceptor acceptor(1, ListenScope::this_host);
  const ServingThread serving(acceptor);
  int ticks = 0;
  const ConnectResult failed =
      connect_to_rank(endpoints({"127.0.0.1", "127.0.0.2"}, acceptor.port()), "another token", 0, [&] { ++ticks; });
  CHECK_FALSE(failed.socket.is_open());
  const std::string port = std::to_string(acceptor.port());
  check_names(failed.message,
              {"127.0.0.1:" + port + ": connected, but it closed the connection; it may belong to another job",
               ", 127.0.0.2:" + port + ": Connection refused"});
  CHECK(ticks >= static_cast<int>(kConnectTicks.size()) * kPauseTicks);
  CHECK(connect_to_rank({}, acceptor.token(), 0, [] {}).message == "no address to try");
}

TEST_CASE("connect_to_rank: a listener that stops after its challenge does not end the search") {
  const Descriptor listener = listen_at(loopback());
  std::thread stopped([&] {
    pollfd incoming{listener.number(), POLLIN, 0};
    poll(&incoming, 1, 5000);
    TcpChannel channel(Descriptor(accept4(listener.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)));
    const auto hello = channel.receive(5000);
    if (hello) channel.send(FrameKind::challenge, ServerHandshake(hello->body).challenge());
    while (channel.receive(5000) || !channel.ended()) {
    }
  });
  SocketAcceptor acceptor(1, ListenScope::this_host);
  const ServingThread serving(acceptor);
  const std::vector where{local_endpoint(listener), endpoint_of("127.0.0.1", acceptor.port())};
  CHECK(connect_to_rank(where, acceptor.token(), 0, [] {}).socket.is_open());
  stopped.join();
}

TEST_CASE("connect_to_rank: an exception of on_tick ends the wait for a silent listener") {
  const Descriptor silent = listen_at(loopback());
  const std::vector where{local_endpoint(silent)};
  int ticks = 0;
  const auto abort_later = [&] {
    if (++ticks > 3) throw JobAborted();
  };
  CHECK_THROWS_AS(connect_to_rank(where, "token", 0, abort_later), JobAborted);
}
