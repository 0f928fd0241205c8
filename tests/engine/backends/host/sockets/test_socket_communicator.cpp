// Tests that are specific to sockets. test_shared_memory_communicator.cpp tests all collectives over both transports.
#include "backends/host/sockets/socket_communicator.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "support_cases.hpp"
#include "support_ranks.hpp"
#include "support_transport.hpp"

using namespace busbw;

namespace {

constexpr std::size_t kSocketBufferBytes = std::size_t{4} << 20;

/// Random cases, identical on all ranks, around every limit between small and large sizes.
std::vector<Case> random_cases(int ranks, unsigned seed, int how_many) {
  std::mt19937 random(seed);
  const auto below = [&](std::size_t end) { return random() % end; };
  std::vector<Case> cases;
  for (int i = 0; i < how_many; ++i) {
    const Dtype dtype = kDtypes[below(kDtypes.size())];
    const std::size_t most = (kSocketBufferBytes - 4096) / static_cast<std::size_t>(ranks) / size_bytes(dtype);
    const std::size_t count = below((std::size_t{1} << below(21)) % most + 1);
    cases.push_back({kCollectives[below(kCollectives.size())], dtype, kRedops[below(kRedops.size())], count,
                     static_cast<int>(below(static_cast<std::size_t>(ranks))), below(2) == 0});
  }
  return cases;
}

/// True if the exact result is known: prod of many ranks overflows in the small types.
bool exact(const Case& of, int ranks) { return ranks <= 8 || !reduces(of.collective) || of.dtype == Dtype::int32; }

std::string run_cases(Communicator& communicator, const std::vector<Case>& cases) {
  for (const Case& of : cases) {
    if (!exact(of, communicator.size())) continue;
    const std::string complaint = CaseRunner(communicator, of).run();
    if (!complaint.empty()) return complaint;
  }
  return {};
}

}  // namespace

TEST_CASE("SocketCommunicator: random collectives, types, operators, sizes, roots and placements") {
  for (const int ranks : {2, 3, 5, 6}) {
    const auto backend = backend_over(Transport::sockets, ranks, kSocketBufferBytes);
    const auto cases = random_cases(ranks, static_cast<unsigned>(ranks), 30);
    const std::string complaints =
        run_threads(ranks, [&](Team& world) { return run_cases(*backend->connect(world, world), cases); });
    CHECK(complaints == "");
  }
}

TEST_CASE("SocketCommunicator: 64 ranks") {
  constexpr int kRanks = 64;
  const auto backend = backend_over(Transport::sockets, kRanks, 64 * 4 * 700 + 4096);
  std::vector<Case> cases;
  for (const std::string_view collective : kCollectives) {
    for (const std::size_t count : {1, 700}) cases.push_back({collective, Dtype::int32, Redop::sum, count, 63, false});
  }
  const std::string complaints =
      run_threads(kRanks, [&](Team& world) { return run_cases(*backend->connect(world, world), cases); });
  CHECK(complaints == "");
}

TEST_CASE("SocketCommunicator: rounded results have the same bits as over shared memory, on every rank") {
  constexpr int kRanks = 3;
  for (const Dtype dtype : {Dtype::float16, Dtype::bfloat16, Dtype::float32, Dtype::f8e4m3}) {
    for (const std::size_t count : {100, 60'001}) {
      for (const Redop redop : {Redop::sum, Redop::avg, Redop::mulsum}) {
        std::vector<std::vector<std::byte>> results;
        for (const Transport transport : kTransports) {
          const auto backend = backend_over(transport, kRanks, count * 4);
          std::vector<std::vector<std::byte>> of_rank(kRanks);
          const std::string complaints = run_threads(kRanks, [&](Team& world) -> std::string {
            const auto communicator = backend->connect(world, world);
            const std::size_t bytes = count * size_bytes(dtype);
            // Random bits: numbers of every magnitude.
            const auto data = moved(world.rank(), 0, bytes);
            communicator->copy(communicator->send_buffer().data(), data.data(), bytes);
            auto* const recv = communicator->recv_buffer().data();
            communicator->all_reduce(communicator->send_buffer().data(), recv, count, dtype, redop);
            of_rank[static_cast<std::size_t>(world.rank())].assign(recv, recv + bytes);
            return {};
          });
          CHECK(complaints == "");
          results.insert(results.end(), of_rank.begin(), of_rank.end());
        }
        for (const auto& result : results) CHECK(result == results.front());
      }
    }
  }
}

TEST_CASE("SocketCommunicator: an exchange with itself and with others, in and out of place") {
  constexpr std::size_t kCount = 50'000;
  const auto backend = backend_over(Transport::sockets, 2, 3 * kCount);
  const std::string complaints = run_threads(2, [&](Team& world) -> std::string {
    const auto communicator = backend->connect(world, world);
    const int rank = world.rank();
    const int peer = 1 - rank;
    auto* const send = communicator->send_buffer().data();
    auto* const recv = communicator->recv_buffer().data();
    const auto to_self = moved(rank, 0, kCount), to_peer = moved(rank, kCount, kCount);
    const auto from_peer = moved(peer, kCount, kCount);
    for (const bool in_place : {false, true}) {
      auto* const from = in_place ? recv : send;
      communicator->copy(from, to_self.data(), kCount);
      communicator->copy(from + kCount, to_peer.data(), kCount);
      // In place the two segments are swapped: each receive overlaps the other send.
      auto* const self_to = in_place ? recv + kCount : recv;
      auto* const peer_to = in_place ? recv : recv + kCount;
      const Transfer sends[] = {{rank, from, kCount}, {peer, from + kCount, kCount}};
      const Transfer recvs[] = {{peer, peer_to, kCount}, {rank, self_to, kCount}};
      communicator->exchange(sends, recvs, Dtype::int8);
      if (!std::equal(to_self.begin(), to_self.end(), self_to)) return "its own; ";
      if (!std::equal(from_peer.begin(), from_peer.end(), peer_to)) return "the peer's; ";
    }
    return {};
  });
  CHECK(complaints == "");
}
