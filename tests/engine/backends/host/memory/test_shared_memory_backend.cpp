#include "backends/host/memory/shared_memory_backend.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

#include "backends/host/memory/workspace.hpp"
#include "common/support/error.hpp"
#include "support_ranks.hpp"
#include "support_transport.hpp"

using namespace busbw;

TEST_CASE("SharedMemoryBackend: name, version, device and sizes") {
  const SharedMemoryBackend backend(1, 2, "1.2.3");
  CHECK(backend.traits().name == "host");
  CHECK(backend.version() == "1.2.3");
  CHECK(backend.device(1).index == 1);
  CHECK(backend.device(1).bus_id == "cpu");
  CHECK_FALSE(backend.device(1).name.empty());
  CHECK(backend.available_bytes(2) > 0);
  CHECK(backend.work_bytes(4) > 0);
  CHECK(backend.work_bytes(8) > backend.work_bytes(4));
}

TEST_CASE("SharedMemoryBackend: reserve comes once, before connect, for all ranks") {
  SharedMemoryBackend backend(1, 1, "0");
  const auto teams = ThreadTeam::make(1);
  CHECK_THROWS_AS(backend.connect(*teams[0], *teams[0]), std::logic_error);
  CHECK_THROWS_AS(backend.reserve(2, 100), std::logic_error);
  backend.reserve(1, 100);
  CHECK_THROWS_AS(backend.reserve(1, 100), std::logic_error);
}

TEST_CASE("SharedMemoryBackend: buffers are each rank's own and as long as reserved") {
  SharedMemoryBackend backend(1, 3, "0");
  backend.reserve(3, 12345);
  const std::string complaints = run_threads(3, [&](Team& world) -> std::string {
    const auto communicator = backend.connect(world, world);
    if (communicator->rank() != world.rank() || communicator->size() != 3) return "rank or size; ";
    const auto mark = static_cast<std::byte>(world.rank() + 1);
    for (const auto buffer : {communicator->send_buffer(), communicator->recv_buffer()}) {
      if (buffer.size() != 12345) return "length; ";
      std::fill(buffer.begin(), buffer.end(), mark);
    }
    world.barrier();
    for (const auto buffer : {communicator->send_buffer(), communicator->recv_buffer()}) {
      for (const std::byte byte : buffer) {
        if (byte != mark) return "shared with another rank; ";
      }
    }
    return {};
  });
  CHECK(complaints == "");
}

TEST_CASE("SharedMemoryBackend: groups work side by side, and a new communicator follows an old one") {
  const auto body = [](SharedMemoryBackend& backend, Team& world) {
    std::string complaint =
        sum_of_ranks(*backend.connect(world, world), world.rank(), 0 + 1 + 2 + 3 + 4 + 5, kStagingBytes);
    const int color = world.rank() % 2;
    for (int again = 0; again < 3; ++again) {
      const auto group = world.split(color);
      complaint += sum_of_ranks(*backend.connect(world, *group), world.rank(), color == 0 ? 0 + 2 + 4 : 1 + 3 + 5,
                                kStagingBytes);
    }
    world.barrier();
    return complaint + sum_of_ranks(*backend.connect(world, world), world.rank(), 0 + 1 + 2 + 3 + 4 + 5, kStagingBytes);
  };
  SharedMemoryBackend threads(1, 6, "0");
  threads.reserve(6, 4 * kStagingBytes);
  CHECK(run_threads(6, [&](Team& world) { return body(threads, world); }) == "");
  SharedMemoryBackend processes(3, 2, "0");
  processes.reserve(6, 4 * kStagingBytes);
  CHECK(run_processes(3, 2, [&](Team& world) { return body(processes, world); }) == "");
}
