// One-sided collectives: which data and how many signals move between which ranks.
#include "collectives/one_sided.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "collectives/registry.hpp"
#include "support_communicator.hpp"
#include "support_ranks.hpp"
#include "support_reduction.hpp"
#include "support_transport.hpp"

using namespace busbw;

namespace {

constexpr std::array<std::string_view, 6> kOneSided{"all_gather", "alltoall", "broadcast",
                                                    "gather",     "scatter",  "sendrecv"};
constexpr std::byte kUntouched{0x5a};
constexpr std::size_t kMargin = 64;

/// One operation on bytes: its arguments and its result, computed without the product's description.
struct ByteCase {
  std::string_view collective;
  int ranks;
  std::size_t count;
  int root;
  bool in_place;

  bool is(std::string_view name) const { return collective == name; }
  std::size_t share(int rank) const { return static_cast<std::size_t>(rank) * count; }
  std::size_t send_bytes() const { return is("alltoall") || is("scatter") ? share(ranks) : count; }
  std::size_t recv_bytes() const { return is("alltoall") || is("all_gather") || is("gather") ? share(ranks) : count; }
  std::size_t buffer_bytes() const { return kMargin + share(ranks) + kMargin; }
  bool has_result(int rank) const { return !is("gather") || rank == root; }
  std::size_t send_offset(int rank) const {
    return kMargin + (in_place && (is("all_gather") || is("gather")) ? share(rank) : 0);
  }
  std::size_t recv_offset(int rank) const { return kMargin + (in_place && is("scatter") ? share(rank) : 0); }

  std::vector<std::byte> result(int rank) const {
    if (is("broadcast")) return moved(root, 0, count);
    if (is("scatter")) return moved(root, share(rank), count);
    if (is("sendrecv")) return moved((rank + ranks - 1) % ranks, 0, count);
    std::vector<std::byte> parts;
    for (int peer = 0; peer < ranks; ++peer) {
      const auto part = moved(peer, is("alltoall") ? share(rank) : 0, count);
      parts.insert(parts.end(), part.begin(), part.end());
    }
    return parts;
  }

  CollectiveCall prepare(Communicator& communicator) const {
    const int rank = communicator.rank();
    const auto send = in_place ? communicator.recv_buffer() : communicator.send_buffer();
    const auto recv = communicator.recv_buffer();
    std::ranges::fill(send, kUntouched);
    std::ranges::fill(recv, kUntouched);
    const bool has_data = (!is("broadcast") && !is("scatter")) || rank == root;
    if (has_data) std::ranges::copy(moved(rank, 0, send_bytes()), send.data() + send_offset(rank));
    return {.send = send.data() + send_offset(rank),
            .recv = recv.data() + recv_offset(rank),
            .count = count,
            .dtype = Dtype::uint8,
            .root = root};
  }

  /// Empty, or the first difference: the result is right and no other byte of the buffer changed.
  std::string difference(Communicator& communicator, const std::vector<std::byte>& before) const {
    const int rank = communicator.rank();
    std::vector<std::byte> expected = before;
    if (has_result(rank)) {
      const auto values = result(rank);
      std::ranges::copy(values, expected.begin() + static_cast<std::ptrdiff_t>(recv_offset(rank)));
    }
    const auto recv = communicator.recv_buffer();
    const auto at = std::ranges::mismatch(expected, recv).in1 - expected.begin();
    if (static_cast<std::size_t>(at) == expected.size()) return {};
    return std::string(collective) + ", rank " + std::to_string(rank) + ", byte " + std::to_string(at) + "; ";
  }
};

std::vector<ByteCase> all_cases(int ranks) {
  std::vector<ByteCase> cases;
  for (const std::string_view collective : kOneSided) {
    const auto described = make_collective(collective, {});
    for (const std::size_t count : {1, 37, 4099})
      for (const int root : described->has_root() ? std::vector{0, ranks - 1} : std::vector{0})
        for (const bool in_place : {false, true})
          if (!in_place || described->in_place_defined()) cases.push_back({collective, ranks, count, root, in_place});
  }
  return cases;
}

/// Signals between pairs of ranks in each context (sender, receiver, context).
struct SignalCounts {
  std::map<std::tuple<int, int, int>, int> sent;
  std::map<std::tuple<int, int, int>, int> awaited;

  std::set<int> contexts() const {
    std::set<int> contexts;
    for (const auto& [signal, count] : sent) contexts.insert(std::get<2>(signal));
    return contexts;
  }
};

/// A rank with puts that reach the other ranks at once. It only counts its waits.
class PuttingCommunicator final : public IdleCommunicator {
 public:
  using Ranks = std::vector<std::unique_ptr<PuttingCommunicator>>;
  PuttingCommunicator(int rank, int size, std::size_t bytes, Ranks& ranks, SignalCounts& signals)
      : IdleCommunicator(rank, size, bytes), ranks_(ranks), signals_(signals) {}
  std::optional<PutObstacle> put_obstacle() const override { return {}; }
  void put(std::span<const Put> puts, std::span<const AwaitedPut> awaited, Dtype dtype) override {
    for (const Put& put : puts) {
      const auto offset = put.destination - recv_buffer().data();
      std::copy_n(put.data, put.count * size_bytes(dtype), ranks_.at(put.peer)->recv_buffer().data() + offset);
      ++signals_.sent[{rank(), put.peer, put.context}];
    }
    for (const AwaitedPut& put : awaited) ++signals_.awaited[{put.source, rank(), put.context}];
  }

 private:
  Ranks& ranks_;
  SignalCounts& signals_;
};

}  // namespace

TEST_CASE("one-sided: the collectives that move data without a pattern of their own") {
  for (const CollectiveEntry& entry : all_collectives()) {
    const bool is_listed = std::ranges::find(kOneSided, entry.name) != kOneSided.end();
    CAPTURE(entry.name);
    CHECK(can_run_one_sided(entry.name) == is_listed);
    CHECK((one_sided_collectives_text().find(entry.name) != std::string::npos) == is_listed);
  }
  CHECK_THROWS_AS(make_collective("all_reduce", {.alltoallv = {}, .rma_contexts = 1}), std::logic_error);
}

TEST_CASE("one-sided: data, counts and figures are those of the collective itself") {
  for (const std::string_view name : kOneSided) {
    const auto plain = make_collective(name, {});
    const auto one_sided = make_collective(name, {.alltoallv = {}, .rma_contexts = 1});
    CAPTURE(name);
    CHECK(one_sided->name() == plain->name());
    CHECK(one_sided->has_root() == plain->has_root());
    CHECK(one_sided->in_place_defined() == plain->in_place_defined());
    CHECK(one_sided->max_peers() == plain->max_peers());
    const Shape shape = plain->shape(1000, 4, 3);
    CHECK(one_sided->shape(1000, 4, 3).param_count == shape.param_count);
    CHECK(one_sided->traffic(shape, 4, 3).bus_factor == plain->traffic(shape, 4, 3).bus_factor);
  }
}

TEST_CASE("one-sided: every receiver awaits exactly the signals that are sent to it, and gets exactly its data") {
  for (const auto& [ranks, contexts] :
       {std::pair{1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {1, 2}, {2, 3}, {4, 4}, {5, 2}}) {
    for (const ByteCase& one : all_cases(ranks)) {
      CAPTURE(one.collective);
      CAPTURE(contexts);
      CAPTURE(ranks);
      CAPTURE(one.root);
      CAPTURE(one.in_place);
      PuttingCommunicator::Ranks all;
      SignalCounts signals;
      for (int rank = 0; rank < ranks; ++rank)
        all.push_back(std::make_unique<PuttingCommunicator>(rank, ranks, one.buffer_bytes(), all, signals));
      std::vector<CollectiveCall> calls;
      std::vector<std::vector<std::byte>> before;
      for (const auto& rank : all) {
        calls.push_back(one.prepare(*rank));
        before.emplace_back(rank->recv_buffer().begin(), rank->recv_buffer().end());
      }
      const auto collective = make_one_sided(make_collective(one.collective, {}), contexts);
      for (int rank = 0; rank < ranks; ++rank) collective->run(*all[rank], calls[rank]);
      CHECK(signals.sent == signals.awaited);
      for (int rank = 0; rank < ranks; ++rank) CHECK(one.difference(*all[rank], before[rank]) == "");
    }
  }
}

TEST_CASE("one-sided: sendrecv divides its data among all contexts, other collectives use one for each pair of ranks") {
  constexpr int kRanks = 4;
  constexpr int kContexts = 3;
  for (const std::string_view name : kOneSided) {
    CAPTURE(name);
    const ByteCase one{name, kRanks, 4099, 0, false};
    PuttingCommunicator::Ranks all;
    SignalCounts signals;
    for (int rank = 0; rank < kRanks; ++rank)
      all.push_back(std::make_unique<PuttingCommunicator>(rank, kRanks, one.buffer_bytes(), all, signals));
    const auto collective = make_one_sided(make_collective(name, {}), kContexts);
    for (const auto& rank : all) collective->run(*rank, one.prepare(*rank));
    CHECK(signals.contexts() == std::set{0, 1, 2});
    std::map<std::pair<int, int>, int> puts_of_pair;
    for (const auto& [signal, count] : signals.sent) {
      const auto [from, to, context] = signal;
      puts_of_pair[{from, to}] += count;
      if (name != "sendrecv") CHECK(context == (from + to) % kContexts);
    }
    for (const auto& [pair, puts] : puts_of_pair) CHECK(puts == (name == "sendrecv" ? kContexts : 1));
  }
}

TEST_CASE("one-sided: an operation without data sends nothing, on any rank") {
  PuttingCommunicator::Ranks all;
  SignalCounts signals;
  PuttingCommunicator rank(0, 3, 8, all, signals);
  for (const std::string_view name : kOneSided)
    make_one_sided(make_collective(name, {}), /*contexts=*/2)
        ->run(rank, {.send = rank.send_buffer().data(), .recv = rank.recv_buffer().data()});
  CHECK(signals.sent.empty());
  CHECK(signals.awaited.empty());
}

TEST_CASE("one-sided over shared memory: ranks as threads and as processes, many operations without a barrier") {
  const auto body = [](Backend& backend) {
    return [&backend](Team& world) -> std::string {
      const auto communicator = backend.connect(world, world);
      std::string differences;
      for (const ByteCase& one : all_cases(world.size())) {
        const CollectiveCall call = one.prepare(*communicator);
        const std::vector<std::byte> before(communicator->recv_buffer().begin(), communicator->recv_buffer().end());
        const auto collective = make_one_sided(make_collective(one.collective, {}), /*contexts=*/2);
        world.barrier();  // the receive buffers are ready
        for (int repetition = 0; repetition < 5; ++repetition) collective->run(*communicator, call);
        differences += one.difference(*communicator, before);
        world.barrier();  // and compared
      }
      return differences;
    };
  };
  const auto largest = [](int ranks) { return ByteCase{"alltoall", ranks, 4099, 0, false}.buffer_bytes(); };
  for (int ranks = 2; ranks <= 5; ++ranks) {
    SharedMemoryBackend backend(1, ranks, "0");
    backend.reserve(ranks, largest(ranks));
    CHECK(run_threads(ranks, body(backend)) == "");
  }
  SharedMemoryBackend backend(3, 1, "0");
  backend.reserve(3, largest(3));
  CHECK(run_processes(3, 1, body(backend)) == "");
}

TEST_CASE("one-sided: ranks over sockets cannot write into each other's memory") {
  for (const Transport transport : kTransports) {
    const auto backend = backend_over(transport, 2, 64);
    CHECK(run_threads(2, [&](Team& world) {
            const bool can_put = transport == Transport::shared_memory;
            const auto obstacle = backend->connect(world, world)->put_obstacle();
            return obstacle.has_value() != can_put && !(obstacle && obstacle->is_of_machine) ? "" : "wrong";
          }) == "");
  }
}
