#include "backends/host/sockets/socket_exchange.hpp"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "common/support/error.hpp"
#include "support_errors.hpp"
#include "support_ranks.hpp"
#include "support_reduction.hpp"

using namespace busbw;

namespace {

/// More than the system buffers for one connection.
constexpr std::size_t kMuch = std::size_t{48} << 20;

}  // namespace

TEST_CASE("SocketExchange: flows between two ranks are one stream in the order in which they were added") {
  const std::string complaints = run_threads(2, [&](Team& world) -> std::string {
    const SocketMesh mesh(world, world.rank(), interfaces());
    SocketExchange exchange(mesh, world);
    const int peer = 1 - world.rank();
    const Bytes mine = moved(world.rank(), 0, 100'000);
    Bytes theirs(100'000);
    // The flows are cut differently at the two ends, and one is empty.
    for (const auto& [first, end] :
         {std::pair{0, 1}, std::pair{1, 1}, std::pair{1, 70'000}, std::pair{70'000, 100'000}})
      exchange.send(peer, mine.data() + first, static_cast<std::size_t>(end - first));
    for (const auto& [first, end] : {std::pair{0, 50'000}, std::pair{50'000, 99'999}, std::pair{99'999, 100'000}})
      exchange.receive(peer, theirs.data() + first, static_cast<std::size_t>(end - first));
    exchange.finish();
    exchange.finish();  // of nothing
    world.barrier();
    return theirs == moved(peer, 0, 100'000) ? "" : "wrong; ";
  });
  CHECK(complaints == "");
}

TEST_CASE("SocketExchange: both send more than fits before either receives, in place too") {
  const std::string complaints = run_threads(2, [&](Team& world) -> std::string {
    const SocketMesh mesh(world, world.rank(), interfaces());
    SocketExchange exchange(mesh, world);
    const int peer = 1 - world.rank();
    Bytes data(kMuch, static_cast<std::byte>(world.rank() + 1));
    data.back() = std::byte{99};
    exchange.send(peer, data.data(), data.size());
    exchange.receive(peer, data.data(), data.size());
    exchange.finish_in_place();
    const bool right =
        std::all_of(data.begin(), data.end() - 1, [&](std::byte byte) { return byte == std::byte(peer + 1); });
    world.barrier();
    return right && data.back() == std::byte{99} ? "" : "wrong; ";
  });
  CHECK(complaints == "");
}

TEST_CASE("SocketExchange: forwarded data equals received data, over many ranks") {
  constexpr int kRanks = 4;
  const std::string complaints = run_threads(kRanks, [&](Team& world) -> std::string {
    const SocketMesh mesh(world, world.rank(), interfaces());
    SocketExchange exchange(mesh, world);
    const Bytes right = moved(0, 0, 3'000'001);
    Bytes data = world.rank() == 0 ? right : Bytes(right.size());
    if (world.rank() == 0) {
      exchange.send(1, data.data(), data.size());
    } else {
      const auto flow = exchange.receive(world.rank() - 1, data.data(), data.size());
      if (world.rank() + 1 < kRanks) exchange.forward(world.rank() + 1, data.data(), data.size(), flow);
    }
    exchange.finish();
    world.barrier();
    return data == right ? "" : "wrong; ";
  });
  CHECK(complaints == "");
}

TEST_CASE("SocketExchange: gives up a peer that moves nothing; the flows with others end, and the peer notices") {
  const std::string complaints = run_threads(3, [&](Team& world) -> std::string {
    const SocketMesh mesh(world, world.rank(), interfaces());
    SocketExchange exchange(mesh, world);
    exchange.give_up_after(/*idle_ticks=*/2);
    Bytes data(1000);
    if (world.rank() == 0) {  // rank 1 sends nothing yet
      exchange.receive(1, data.data(), data.size());
      exchange.receive(2, data.data(), data.size());
    } else if (world.rank() == 2) {
      exchange.send(0, data.data(), data.size());
    }
    exchange.finish();
    world.barrier();
    if (world.rank() == 1) {
      exchange.receive(0, data.data(), data.size());
      exchange.finish();
    }
    world.barrier();
    const std::map<int, std::string>& failed = exchange.failed_peers();
    if (world.rank() == 0) return failed.size() == 1 && failed.at(1).starts_with("timed out") ? "" : "rank 0; ";
    if (world.rank() == 1)
      return failed.size() == 1 && failed.at(0).find("was lost") != std::string::npos ? "" : "rank 1; ";
    return failed.empty() ? "" : "rank 2; ";
  });
  CHECK(complaints == "");
}

TEST_CASE("SocketExchange: a busy peer that waits for a stalled peer is not given up") {
  const std::string complaints = run_threads(3, [&](Team& world) -> std::string {
    const SocketMesh mesh(world, world.rank(), interfaces());
    SocketExchange exchange(mesh, world);
    constexpr int kIdleTicks = 4;
    exchange.give_up_after(kIdleTicks);
    Bytes data(1000);
    const auto wait_for = [&](int peer, bool is_peer_busy) {
      exchange.receive(peer, data.data(), data.size(), is_peer_busy);
      exchange.finish();
    };
    // Rank 1 waits for the stalled rank 2, and rank 0, which begins earlier, for rank 1.
    if (world.rank() == 0) wait_for(1, /*is_peer_busy=*/true);
    if (world.rank() == 1) {
      poll(nullptr, 0, kTickMs / 2);
      wait_for(2, /*is_peer_busy=*/false);
      exchange.send(0, data.data(), data.size());
      exchange.finish();
    }
    world.barrier();
    const std::map<int, std::string>& failed = exchange.failed_peers();
    const bool is_right = world.rank() == 1 ? failed.size() == 1 && failed.contains(2) : failed.empty();
    return is_right ? "" : "rank " + std::to_string(world.rank()) + "; ";
  });
  CHECK(complaints == "");
}

TEST_CASE("SocketExchange: an abort ends the wait for a stalled peer") {
  for (const bool sending : {true, false}) {
    const std::string complaints = run_threads(2, [&](Team& world) -> std::string {
      const SocketMesh mesh(world, world.rank(), interfaces());
      world.barrier();
      if (world.rank() == 1) {
        dynamic_cast<ThreadTeam&>(world).abort();
        while (!world.aborted()) {
        }
        return {};
      }
      SocketExchange exchange(mesh, world);
      Bytes data(sending ? kMuch : 1);
      sending ? exchange.send(1, data.data(), data.size()) : void(exchange.receive(1, data.data(), data.size()));
      try {
        exchange.finish();
      } catch (const JobAborted&) {
        return {};
      }
      return "did not throw; ";
    });
    CHECK(complaints == "");
  }
}

TEST_CASE("SocketExchange: a lost peer is named with its host and the phase if the job does not abort") {
  for (const bool sending : {true, false}) {
    std::string sentence;
    const std::string complaints = run_threads(2, [&](Team& world) -> std::string {
      SocketMesh mesh(world, 70 + world.rank(), interfaces());
      if (world.rank() == 1) {
        SocketMesh closes(std::move(mesh));
        return {};
      }
      SocketExchange exchange(mesh, world, 2);
      exchange.enter(Phase::warmup);
      Bytes data(sending ? kMuch : 1);
      sending ? exchange.send(1, data.data(), data.size()) : void(exchange.receive(1, data.data(), data.size()));
      try {
        exchange.finish();
      } catch (const Error& error) {
        sentence = error.what();
        return error.exit() == ExitCode::rank_lost ? "" : "wrong exit code; ";
      }
      return "did not throw; ";
    });
    CHECK(complaints == "");
    check_names(sentence, {"rank 71 on host ", "was lost in phase warmup"});
  }
}

TEST_CASE("SocketExchange: a lost peer in an aborted job throws JobAborted") {
  const std::string complaints = run_threads(2, [&](Team& world) -> std::string {
    SocketMesh mesh(world, world.rank(), interfaces());
    if (world.rank() == 1) {
      {
        const SocketMesh closes(std::move(mesh));
      }
      dynamic_cast<ThreadTeam&>(world).abort();
      return {};
    }
    SocketExchange exchange(mesh, world);
    std::byte byte{};
    exchange.receive(1, &byte, 1);
    try {
      exchange.finish();
    } catch (const JobAborted&) {
      return {};
    }
    return "did not throw; ";
  });
  CHECK(complaints == "");
}
