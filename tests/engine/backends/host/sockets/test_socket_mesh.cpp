#include "backends/host/sockets/socket_mesh.hpp"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "backends/host/sockets/socket_addresses.hpp"
#include "backends/host/sockets/socket_connector.hpp"
#include "common/support/error.hpp"
#include "support_errors.hpp"
#include "support_ranks.hpp"
#include "support_sockets.hpp"

using namespace busbw;
using namespace busbw::test;

namespace {

/// Port and token of a listener.
using Listener = std::pair<int, std::string>;

/// Plays one rank's part of the exchange through the team. Returns the listeners of all ranks. The rank's own listener
/// is a port at which nothing listens.
std::vector<Listener> exchange_listeners(Team& team, int world_rank,
                                         const std::string& loopback_namespace = loopback_namespace_id()) {
  all_gather_values(team, PeerInfo{world_rank, "elsewhere", loopback_namespace, interfaces(), team.rank()});
  return all_gather_values(team, Listener(free_port(), std::string()));
}

}  // namespace

TEST_CASE("PeerInfo: sent and received") {
  const PeerInfo sent{7,
                      "node07",
                      "boot net:[1]",
                      {{"eth0", endpoint_of("192.0.2.2", 0), endpoint_of("255.255.255.0", 0)},
                       {"ib0", endpoint_of("2001:db8::2", 0), endpoint_of("ffff:ffff::", 0)}}};
  const auto received = MessageReader(MessageWriter().add(sent).bytes()).take<PeerInfo>();
  CHECK(received.world_rank == 7);
  CHECK(received.host == "node07");
  CHECK(received.loopback_namespace == "boot net:[1]");
  REQUIRE(received.interfaces.size() == 2);
  CHECK(received.interfaces[0].name == "eth0");
  CHECK(received.interfaces[1].address.host() == "2001:db8::2");
  CHECK(received.interfaces[1].mask.host() == "ffff:ffff::");
}

TEST_CASE("PeerInfo: the same host has a known and equal loopback namespace") {
  PeerInfo one{.host = "node07", .loopback_namespace = "boot net:[1]", .interfaces = {}};
  PeerInfo other{.host = "called otherwise", .loopback_namespace = "boot net:[1]", .interfaces = {}};
  CHECK(one.shares_loopback_with(other));
  other.loopback_namespace = "boot net:[2]";
  CHECK_FALSE(one.shares_loopback_with(other));
  one.loopback_namespace = other.loopback_namespace = "";
  CHECK_FALSE(one.shares_loopback_with(other));
}

TEST_CASE("SocketMesh: every two ranks have a connection, and each leads to the right one") {
  for (const int ranks : {1, 2, 5, 16}) {
    const std::string complaints = run_threads(ranks, [&](Team& world) -> std::string {
      const SocketMesh mesh(world, 100 + world.rank(), interfaces());
      if (mesh.rank() != world.rank() || mesh.size() != ranks) return "rank or size; ";
      if (mesh.connection(world.rank()) >= 0) return "connected with itself; ";
      for (int peer = 0; peer < ranks; ++peer) {
        if (mesh.world_ranks()[static_cast<std::size_t>(peer)] != 100 + peer) return "world rank; ";
        const int mine = world.rank();
        if (peer != mine && send(mesh.connection(peer), &mine, sizeof mine, 0) != sizeof mine) return "send; ";
      }
      for (int peer = 0; peer < ranks; ++peer) {
        int theirs = -1;
        if (peer == world.rank()) continue;
        pollfd polled{mesh.connection(peer), POLLIN, 0};
        if (poll(&polled, 1, 60'000) != 1) return "nothing came; ";
        if (recv(mesh.connection(peer), &theirs, sizeof theirs, 0) != sizeof theirs || theirs != peer) return "recv; ";
      }
      for (const Interface& end : mesh.used_interfaces()) {
        if (!end.address.is_loopback()) return "not over loopback; ";
      }
      if (mesh.used_interfaces().size() != (ranks > 1 ? 1u : 0u)) return "local ends; ";
      if (mesh.name_of(0).find("rank 100 on host ") != 0) return "name; ";
      world.barrier();
      return {};
    });
    CHECK(complaints == "");
  }
}

TEST_CASE("SocketMesh: invalid connections during the setup are rejected; afterwards the port is closed") {
  const std::string complaints = run_threads(2, [&](Team& world) -> std::string {
    if (world.rank() == 1) {
      const SocketMesh mesh(world, 1, interfaces());
      world.barrier();
      char text[6] = {};
      pollfd polled{mesh.connection(0), POLLIN, 0};
      if (poll(&polled, 1, 60'000) != 1 || recv(mesh.connection(0), text, 5, 0) != 5) return "no data; ";
      world.barrier();
      return std::string(text) == "hello" ? "" : "wrong data; ";
    }
    // The test plays rank 0: it knows rank 1's listener and makes invalid connections first.
    const auto [port, token] = exchange_listeners(world, 0)[1];
    std::vector<RawClient> invalid_clients;
    for (int i = 0; i < 100; ++i) {
      invalid_clients.emplace_back(loopback(port));
      if (i % 4 == 1) invalid_clients.back().send("GET / HTTP/1.0\r\n\r\n and more than a greeting can hold");
      if (i % 4 == 2) invalid_clients.back().send(FrameKind::hello, ClientHandshake(token).hello());
      if (i % 4 == 3) invalid_clients.back().reset();
    }
    const ConnectResult connected = connect_to_rank(std::vector{loopback(port)}, token, 0, [] {});
    if (!connected.socket.is_open()) return "not accepted: " + connected.message;
    all_gather_values(world, std::vector<int>());  // of the mesh: no rank is unreachable
    world.barrier();
    const bool still_open = connect_to(loopback(port), 1, [] { return false; }).socket.is_open();
    static_cast<void>(!send(connected.socket.number(), "hello", 5, MSG_NOSIGNAL));
    world.barrier();
    return still_open ? "somebody still listens; " : "";
  });
  CHECK(complaints == "");
}

TEST_CASE("SocketMesh: an unreachable rank is named with its host, the tried addresses and the remedy") {
  std::string sentence;
  const std::string complaints = run_threads(2, [&](Team& world) -> std::string {
    if (world.rank() == 1) {
      exchange_listeners(world, 41);
      return {};
    }
    sentence = sentence_of<EnvironmentError>([&] { SocketMesh(world, 40, interfaces()); });
    return {};
  });
  CHECK(complaints == "");
  check_names(sentence, {"cannot reach rank 41 on host elsewhere", "127.0.0.1:", "Connection refused", "firewall",
                         "BUSBW_SOCKET_IFNAME"});
}

TEST_CASE("SocketMesh: with a limit, an unreachable rank is noted, and the others have new connections") {
  const std::string complaints = run_threads(3, [&](Team& world) -> std::string {
    const auto has_connection = [](const SocketMesh& mesh, int peer) { return mesh.connection(peer) >= 0; };
    if (world.rank() == 2) {
      exchange_listeners(world, 2);
      // Only ranks 0 and 1 need the reasons, so they send none.
      const auto unreached_ranks = all_gather_values(world, std::vector<int>());
      if (unreached_ranks != std::vector<std::vector<int>>{{2}, {2}, {}}) return "rank 2 is reachable; ";
      SocketMesh mesh(2, 3, interfaces());
      mesh.reconnect(world, 60);
      return mesh.unreachable().size() == 2 ? "" : "the unreachable rank was connected again; ";
    }
    SocketMesh mesh(world.rank(), 3, interfaces());
    const int neighbor = 1 - world.rank();
    if (has_connection(mesh, neighbor)) return "connected at the beginning; ";
    for (int round = 0; round < 2; ++round) {
      mesh.reconnect(world, 0.1);
      if (!has_connection(mesh, neighbor) || has_connection(mesh, 2)) return "wrong connections; ";
      if (mesh.unreachable().size() != 1 || !mesh.unreachable().contains(2)) return "wrong unreachable ranks; ";
      check_names(mesh.unreachable().at(2), {"cannot reach rank 2 on host elsewhere", "firewall"});
    }
    return {};
  });
  CHECK(complaints == "");
}

TEST_CASE("SocketMesh: a host without an address to try is named as well") {
  std::string sentence;
  const std::string complaints = run_threads(2, [&](Team& world) -> std::string {
    if (world.rank() == 1) {
      // All its addresses are this host's own, and yet it is another host.
      exchange_listeners(world, 1, "another boot net:[0]");
      return {};
    }
    sentence = sentence_of<EnvironmentError>([&] { SocketMesh(world, 0, interfaces()); });
    return {};
  });
  CHECK(complaints == "");
  check_names(sentence, {"rank 1 on host elsewhere", "no address to try"});
}

TEST_CASE("SocketMesh: an abort ends the wait for a rank that never connects") {
  const std::string complaints = run_threads(2, [&](Team& world) -> std::string {
    if (world.rank() == 0) {
      exchange_listeners(world, 0);
      dynamic_cast<ThreadTeam&>(world).abort();
      return {};
    }
    try {
      const SocketMesh mesh(world, 1, interfaces());
    } catch (const JobAborted&) {
      return {};
    }
    return "did not throw; ";
  });
  CHECK(complaints == "");
}
