#include "backends/host/sockets/socket_backend.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/host/sockets/socket_communicator.hpp"
#include "common/support/error.hpp"
#include "support_errors.hpp"
#include "support_ranks.hpp"
#include "support_transport.hpp"

using namespace busbw;

namespace {

constexpr std::size_t kMany = 50'000;  // elements: a whole buffer

}  // namespace

TEST_CASE("SocketBackend: name, version, device and facts") {
  const SocketBackend backend(4, 2, "1.2.3");
  CHECK(backend.traits().name == "host");
  CHECK(backend.version() == "1.2.3");
  CHECK(backend.device(1).index == 1);
  CHECK(backend.device(1).bus_id == "cpu");
  CHECK_FALSE(backend.device(1).name.empty());
  CHECK(backend.work_bytes(4) == 4 * SocketCommunicator::kWorkBytes);
  REQUIRE(backend.facts().size() == 1);
  CHECK(backend.facts()[0] == std::pair<std::string, std::string>{"transport", "tcp sockets"});
}

TEST_CASE("SocketBackend: reserve comes once, before connect, for the ranks of this process") {
  SocketBackend backend(0, 1, "0");
  const auto teams = ThreadTeam::make(1);
  CHECK_THROWS_AS(backend.connect(*teams[0], *teams[0]), std::logic_error);
  CHECK_THROWS_AS(backend.reserve(2, 100), std::logic_error);
  backend.reserve(1, 100);
  CHECK_THROWS_AS(backend.reserve(1, 100), std::logic_error);
  CHECK(backend.connect(*teams[0], *teams[0])->send_buffer().size() == 100);
}

TEST_CASE("SocketBackend: interfaces are chosen by BUSBW_SOCKET_IFNAME") {
  setenv("BUSBW_SOCKET_IFNAME", "nowhere", 1);
  const auto sentence = sentence_of<UsageError>([] { SocketBackend(0, 1, "0"); });
  setenv("BUSBW_SOCKET_IFNAME", "lo", 1);
  SocketBackend backend(0, 2, "0");
  unsetenv("BUSBW_SOCKET_IFNAME");
  check_names(sentence, {"BUSBW_SOCKET_IFNAME=nowhere"});
  backend.reserve(2, 200'000);
  CHECK(run_threads(2, [&](Team& world) {
          return sum_of_ranks(*backend.connect(world, world), world.rank(), 1, kMany);
        }) == "");
  CHECK(backend.facts().at(1) == std::pair<std::string, std::string>{"transport_addresses", "127.0.0.1 (lo)"});
}

TEST_CASE(
    "SocketBackend: groups work side by side, a new communicator follows an old one, in processes started apart") {
  constexpr int kProcesses = 3;
  constexpr int kThreads = 2;
  std::vector<std::unique_ptr<SocketBackend>> backends;
  for (int process = 0; process < kProcesses; ++process) {
    backends.push_back(std::make_unique<SocketBackend>(process * kThreads, kThreads, "0"));
    backends.back()->reserve(kThreads, 200'000);
  }
  const auto body = [&](Team& world) {
    SocketBackend& backend = *backends[static_cast<std::size_t>(world.rank() / kThreads)];
    std::string complaint = sum_of_ranks(*backend.connect(world, world), world.rank(), 0 + 1 + 2 + 3 + 4 + 5, kMany);
    const int color = world.rank() % 2;
    for (int again = 0; again < 3; ++again) {
      const auto group = world.split(color);
      complaint +=
          sum_of_ranks(*backend.connect(world, *group), world.rank(), color == 0 ? 0 + 2 + 4 : 1 + 3 + 5, kMany);
    }
    return complaint;
  };
  CHECK(run_processes(kProcesses, kThreads, body) == "");
  // Buffers are each rank's own.
  const auto mark = [&](Team& world) -> std::string {
    const auto communicator = backends[0]->connect(world, world);
    const auto value = static_cast<std::byte>(world.rank() + 1);
    for (const auto buffer : {communicator->send_buffer(), communicator->recv_buffer()})
      std::fill(buffer.begin(), buffer.end(), value);
    world.barrier();
    for (const auto buffer : {communicator->send_buffer(), communicator->recv_buffer()}) {
      if (std::count(buffer.begin(), buffer.end(), value) != 200'000) return "shared with another rank; ";
    }
    return {};
  };
  CHECK(run_threads(kThreads, mark) == "");
}
