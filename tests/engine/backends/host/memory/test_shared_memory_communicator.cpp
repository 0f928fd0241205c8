// The communicators of the host backend: the same over shared memory and over sockets.
#include "backends/host/memory/shared_memory_communicator.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/registry.hpp"
#include "rendezvous/team/barrier.hpp"
#include "support_cases.hpp"
#include "support_ranks.hpp"
#include "support_reduction.hpp"
#include "support_transport.hpp"

using namespace busbw;

namespace {

/// Odd counts on both sides of the staging limit, which is also near the limit at which sockets change the algorithm.
std::vector<std::size_t> counts_of(Dtype dtype) { return {0, 1, 33, kStagingBytes / size_bytes(dtype) + 5}; }

/// The thread sanitizer checks synchronization, and a type changes nothing of it except the size of an element. So it
/// gets one type of each size, and all operators for one type only.
bool is_tested(Dtype dtype, Redop redop) {
  if (!kUnderThreadSanitizer) return true;
  if (redop != Redop::sum) return dtype == Dtype::float32;
  return dtype == Dtype::int8 || dtype == Dtype::float16 || dtype == Dtype::float32 || dtype == Dtype::float64;
}

std::string run_all(Communicator& communicator) {
  const int last = communicator.size() - 1;
  for (const std::string_view collective : kCollectives) {
    for (const Dtype dtype : kDtypes) {
      for (const Redop redop : kRedops) {
        if (!is_tested(dtype, redop) || (!reduces(collective) && redop != Redop::sum)) continue;
        for (const std::size_t count : counts_of(dtype)) {
          for (const bool in_place : {false, true}) {
            const int root = count % 2 == 0 ? 0 : last;
            const auto complaint = CaseRunner(communicator, {collective, dtype, redop, count, root, in_place}).run();
            if (!complaint.empty()) return complaint;
          }
        }
      }
    }
  }
  return {};
}

/// The largest case: alltoall of 8 ranks, and the margin.
constexpr std::size_t kBufferBytes = 8 * (kStagingBytes + 64) + 4096;

}  // namespace

TEST_CASE("Host communicators: every collective, type, operator and placement, ranks as threads") {
  for (const Transport transport : kTransports) {
    for (const int ranks : {1, 2, 3, 4, 7, 8}) {
      const auto backend = backend_over(transport, ranks, kBufferBytes);
      const std::string complaints =
          run_threads(ranks, [&](Team& world) { return run_all(*backend->connect(world, world)); });
      CHECK(complaints == "");
    }
  }
}

TEST_CASE("Host communicators: every collective, type, operator and placement, ranks as processes") {
  for (const auto& [processes, threads] : {std::pair{2, 1}, std::pair{3, 1}, std::pair{2, 2}}) {
    SharedMemoryBackend backend(processes, threads, "0");
    backend.reserve(processes * threads, kBufferBytes);
    const std::string complaints =
        run_processes(processes, threads, [&](Team& world) { return run_all(*backend.connect(world, world)); });
    CHECK(complaints == "");
  }
}

TEST_CASE("Host communicators: many claims of a reduction, many chunks of an exchange, and every root") {
  // Under the thread sanitizer, which is slow: 8 claims, and 5 chunks in 2 slots.
  constexpr std::size_t kCount = kUnderThreadSanitizer ? 70'003 : 200'003;
  for (const Transport transport : kTransports) {
    const auto backend = backend_over(transport, 4, 4 * 4 * kCount + 4096);
    const std::string complaints = run_threads(4, [&](Team& world) {
      const auto communicator = backend->connect(world, world);
      std::string complaint;
      for (const std::string_view collective : kCollectives) {
        for (int root = 0; root < (make_collective(collective, {})->has_root() ? 4 : 1); ++root) {
          for (const bool in_place : {false, true}) {
            complaint +=
                CaseRunner(*communicator, {collective, Dtype::float32, Redop::sum, kCount, root, in_place}).run();
          }
        }
      }
      return complaint;
    });
    CHECK(complaints == "");
  }
}

TEST_CASE("Host communicators: results larger than the cache are streamed past it and are correct") {
  // A cache of one byte makes every reduction a streamed one.
  const Workspace workspace(3, 100'000, Sharing::threads);
  const std::string complaints = run_threads(3, [&](Team& world) {
    SharedMemoryCommunicator communicator(workspace, world, {0, 1, 2}, world.rank(), 1);
    return CaseRunner(communicator, {"all_reduce", Dtype::float32, Redop::sum, 20'001, 0, false}).run();
  });
  CHECK(complaints == "");
}

TEST_CASE("Host communicators: back to back without waits between, small and large in turn") {
  // The thread sanitizer does not depend on timing, and the counts repeat after 21 rounds.
  constexpr std::uint32_t kRounds = kUnderThreadSanitizer ? 100 : 2000;
  for (const Transport transport : kTransports) {
    const auto backend = backend_over(transport, 3, 64 << 10);
    const std::string complaints = run_threads(3, [&](Team& world) -> std::string {
      const auto communicator = backend->connect(world, world);
      auto* const value = communicator->send_buffer().data();
      auto* const sum = communicator->recv_buffer().data();
      for (std::uint32_t round = 0; round < kRounds; ++round) {
        const std::size_t count = round % 3 == 0 ? kStagingBytes : 1 + round % 7;
        const std::uint32_t mine = round * static_cast<std::uint32_t>(world.rank() + 1);
        std::memcpy(value, &mine, sizeof mine);
        communicator->all_reduce(value, sum, count, Dtype::uint32, Redop::sum);
        std::uint32_t got = 0;
        std::memcpy(&got, sum, sizeof got);
        if (got != 6 * round) return "round " + std::to_string(round) + "; ";
      }
      return {};
    });
    CHECK(complaints == "");
  }
}

TEST_CASE("Host communicators: a ring of sends and receives, in and out of place; copies within a rank") {
  constexpr std::size_t kBytes = 300'001;
  for (const Transport transport : kTransports) {
    for (const int ranks : {1, 2, 3, 8}) {
      const auto backend = backend_over(transport, ranks, kBytes);
      const std::string complaints = run_threads(ranks, [&](Team& world) -> std::string {
        const auto communicator = backend->connect(world, world);
        const int next = (world.rank() + 1) % ranks;
        const int previous = (world.rank() + ranks - 1) % ranks;
        const auto data = moved(world.rank(), 0, kBytes);
        const auto expected = moved(previous, 0, kBytes);
        auto* const recv = communicator->recv_buffer().data();
        for (const bool in_place : {false, true}) {
          auto* const from = in_place ? recv : communicator->send_buffer().data();
          communicator->copy(from, data.data(), kBytes);
          const Transfer send{next, from, kBytes};
          const Transfer get{previous, recv, kBytes};
          communicator->exchange({&send, 1}, {&get, 1}, Dtype::uint8);
          if (!std::equal(expected.begin(), expected.end(), recv)) return in_place ? "in place; " : "out of place; ";
        }
        return {};
      });
      CHECK(complaints == "");
    }
  }
}

TEST_CASE("Host communicators: fill and compare agree, and a difference is found") {
  SharedMemoryBackend backend(1, 1, "0");
  backend.reserve(1, 1 << 20);
  const auto teams = ThreadTeam::make(1);
  const auto communicator = backend.connect(*teams[0], *teams[0]);
  const DataStream stream = moved_stream(Dtype::float32, 0, 7);
  auto* const at = communicator->recv_buffer().data();
  communicator->fill(at, stream, 5, 10'000);
  Mismatches mismatches;
  communicator->compare(at, stream, 5, 10'000, 0, mismatches);
  CHECK(mismatches.count == 0);
  at[4 * 777] ^= std::byte{1};
  communicator->compare(at, stream, 5, 10'000, 100, mismatches);
  REQUIRE(mismatches.count == 1);
  CHECK(mismatches.first.at(0).index == 877);
}

TEST_CASE("Host communicators: an abort ends the wait for a missing rank") {
  for (const Transport transport : kTransports) {
    const auto backend = backend_over(transport, 2, 4096);
    const std::string complaints = run_threads(2, [&](Team& world) -> std::string {
      const auto communicator = backend->connect(world, world);
      world.barrier();
      if (world.rank() == 1) {
        dynamic_cast<ThreadTeam&>(world).abort();
        return {};
      }
      try {
        communicator->all_reduce(communicator->send_buffer().data(), communicator->recv_buffer().data(), 1,
                                 Dtype::int32, Redop::sum);
      } catch (const JobAborted&) {
        return {};
      }
      return "did not throw; ";
    });
    CHECK(complaints == "");
  }
}
