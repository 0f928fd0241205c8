#include "backends/host/sockets/socket_mesh.hpp"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "backends/host/sockets/socket_addresses.hpp"
#include "common/support/error.hpp"
#include "support_errors.hpp"
#include "support_ranks.hpp"
#include "support_sockets.hpp"

using namespace busbw;

namespace {

/// Plays one rank's part of the handshake through the team. Returns the credentials of all ranks.
std::vector<ListenerCredentials> exchange_handshake(Team& team, int world_rank, const ListenerCredentials& credentials,
                                                    const std::string& loopback_namespace = loopback_namespace_id()) {
  all_gather_values(team, PeerInfo{world_rank, "elsewhere", loopback_namespace, interfaces()}.encoded());
  return all_gather_values(team, credentials);
}

/// Credentials with a port at which nothing listens.
ListenerCredentials closed_port() {
  const Descriptor listener = listen_at(endpoint_of("127.0.0.1", 0));
  return new_listener_credentials(static_cast<std::uint16_t>(local_endpoint(listener).port()));
}

}  // namespace

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
    // The test plays rank 0: it knows rank 1's credentials and makes invalid connections first.
    const ListenerCredentials credentials = exchange_handshake(world, 0, closed_port())[1];
    std::vector<Descriptor> invalid_connections;
    for (int i = 0; i < 100; ++i) {
      invalid_connections.push_back(connect_to_port(credentials.port));
      if (i % 4 == 1) send_bytes(invalid_connections.back(), "GET / HTTP/1.0\r\n\r\n and more than a request can hold");
      if (i % 4 == 2) send_bytes(invalid_connections.back(), "busbwhi1");
      if (i % 4 == 3) invalid_connections.back().close();
    }
    SocketConnector connector({endpoint_of("127.0.0.1", 0)}, credentials, 0, 1);
    for (int round = 0; round < 600 && !connector.connected(); ++round) poll_once(connector);
    if (!connector.connected()) return "not accepted: " + connector.attempts_text();
    const Descriptor connection = connector.take_connection();
    world.barrier();
    const bool still_open = connect_to_port(credentials.port).is_open();
    send_bytes(connection, "hello");
    world.barrier();
    return still_open ? "somebody still listens; " : "";
  });
  CHECK(complaints == "");
}

TEST_CASE("SocketMesh: an unreachable rank is named with its host, the tried addresses and the remedy") {
  std::string sentence;
  const std::string complaints = run_threads(2, [&](Team& world) -> std::string {
    if (world.rank() == 1) {
      exchange_handshake(world, 41, closed_port());
      return {};
    }
    sentence = sentence_of<EnvironmentError>([&] { SocketMesh(world, 40, interfaces()); });
    return {};
  });
  CHECK(complaints == "");
  check_names(sentence, {"cannot reach rank 41 on host elsewhere", "127.0.0.1:", "Connection refused", "firewall",
                         "BUSBW_SOCKET_IFNAME"});
}

TEST_CASE("SocketMesh: a host without an address to try is named as well") {
  std::string sentence;
  const std::string complaints = run_threads(2, [&](Team& world) -> std::string {
    if (world.rank() == 1) {
      // All its addresses are this host's own, and yet it is another host.
      exchange_handshake(world, 1, closed_port(), "another boot net:[0]");
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
      exchange_handshake(world, 0, closed_port());
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
