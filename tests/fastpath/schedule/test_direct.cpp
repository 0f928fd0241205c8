// Direct operations on the host: the bytes that each rank reads and writes, compared with plain loops.
#include "fastpath/schedule/direct.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fastpath/choice/operation.hpp"
#include "fastpath/choice/table.hpp"

using namespace busbw::fastpath;

namespace {

using Words = std::vector<std::uint64_t>;
constexpr std::size_t kGuardWords = 8;
constexpr std::uint64_t kGuard = 0x5b5b5b5b5b5b5b5b;
constexpr int kCellsOfStep = 4096;

/// Reduction with a result that depends on the order.
std::uint64_t combined(std::uint64_t a, std::uint64_t b) { return a * 31 + b; }

struct InOrder {
  template <int kMax>
  Cell of(const Cell (&cells)[kMax], int count) const {
    Cell result = cells[0];
    for (int i = 1; i < count; ++i) result = {combined(result.low, cells[i].low), combined(result.high, cells[i].high)};
    return result;
  }
};

/// Fabric with the maximum number of ranks as a template parameter, as in the kernels.
template <int kMax>
struct OneThread {
  static constexpr int kMaxRanks = kMax;
  int number;
  int of;
  int thread() const { return number; }
  int threads() const { return of; }
};

/// A rank's buffer with guards, aligned as cells are.
struct Buffer {
  Words words;
  explicit Buffer(std::size_t size) : words(size + 2 * kGuardWords + 1, kGuard), size_(size) {}
  std::uint64_t* data() {
    std::uint64_t* const begin = words.data() + kGuardWords;
    return reinterpret_cast<std::uintptr_t>(begin) % kCellBytes == 0 ? begin : begin + 1;
  }
  bool is_untouched_around() {
    std::uint64_t* const begin = data();
    for (const std::uint64_t* at = words.data(); at < words.data() + words.size(); ++at)
      if ((at < begin || at >= begin + size_) && *at != kGuard) return false;
    return true;
  }

 private:
  std::size_t size_;
};

std::uint64_t input(int rank, std::size_t at) { return static_cast<std::uint64_t>(rank + 1) * 1000003 + at; }

/// Returns the expected word at `at` in the output of `rank`. `part` is the number of words per rank.
std::uint64_t expected(Collective collective, int ranks, int rank, std::size_t part, std::size_t at) {
  if (collective == Collective::all_gather) return input(static_cast<int>(at / part), at % part);
  const std::size_t from = collective == Collective::reduce_scatter ? static_cast<std::size_t>(rank) * part + at : at;
  std::uint64_t result = input(0, from);
  for (int r = 1; r < ranks; ++r) result = combined(result, input(r, from));
  return result;
}

template <int kMax>
void move(const Operation& operation, int thread) {
  const OneThread<kMax> fabric{thread, operation.grid.blocks * operation.grid.threads};
  if (operation.collective == Collective::all_gather)
    DirectCopy{operation.transfer}.move(fabric);
  else
    DirectReduction<InOrder>{operation.transfer, {}}.move(fabric);
}

/// Runs all threads of all ranks one after another, in random order.
void move_all(const std::vector<Operation>& operations, std::mt19937_64& engine) {
  const Grid& grid = operations.front().grid;
  std::vector<std::pair<std::size_t, int>> threads;
  for (std::size_t rank = 0; rank < operations.size(); ++rank)
    for (int thread = 0; thread < grid.blocks * grid.threads; ++thread) threads.emplace_back(rank, thread);
  std::shuffle(threads.begin(), threads.end(), engine);
  for (const auto& [rank, thread] : threads) {
    if (operations.size() <= 2)
      move<2>(operations[rank], thread);
    else if (operations.size() <= 4)
      move<4>(operations[rank], thread);
    else
      move<kMaxRanks>(operations[rank], thread);
  }
}

bool are_alike(const Grid& a, const Grid& b) {
  return a.blocks == b.blocks && a.threads == b.threads && a.batch == b.batch && a.steps == b.steps;
}

std::string fault_of(Collective collective, int ranks, std::size_t part, bool in_place, MethodConfig config,
                     std::mt19937_64& engine) {
  const std::size_t all = part * static_cast<std::size_t>(ranks);
  const std::size_t send_words = collective == Collective::reduce_scatter ? all : part;
  const std::size_t receive_words = collective == Collective::all_gather ? all : part;
  std::vector<Buffer> sends;
  std::vector<Buffer> receives;
  for (int r = 0; r < ranks; ++r) {
    sends.emplace_back(in_place ? std::max(send_words, receive_words) : send_words);
    receives.emplace_back(receive_words);
  }
  std::vector<CollectiveCall> calls;
  for (int r = 0; r < ranks; ++r) {
    const auto rank = static_cast<std::size_t>(r);
    std::uint64_t* const base = sends[rank].data();
    const std::size_t own = rank * part;
    std::uint64_t* const send = base + (in_place && collective == Collective::all_gather ? own : 0);
    std::uint64_t* receive = receives[rank].data();
    if (in_place) receive = base + (collective == Collective::reduce_scatter ? own : 0);
    for (std::size_t at = 0; at < send_words; ++at) send[at] = input(r, at);
    CollectiveCall call;
    call.collective = collective;
    call.send = send;
    call.receive = receive;
    call.bytes = part * 8;
    calls.push_back(call);
  }
  PeerBuffers reach;
  for (int r = 0; r < ranks; ++r) {
    const CollectiveCall& call = calls[static_cast<std::size_t>(r)];
    if (!supports_direct(call)) return "is not for direct";
    reach.send[r] = static_cast<char*>(const_cast<void*>(call.send));
    reach.receive[r] = static_cast<char*>(call.receive);
  }
  std::vector<Operation> operations;
  for (int r = 0; r < ranks; ++r) {
    const CollectiveCall& call = calls[static_cast<std::size_t>(r)];
    operations.push_back(make_direct_operation(call, config, r, ranks, kCellsOfStep, reach));
    if (!are_alike(operations.back().grid, operations.front().grid)) return "ranks have different grids";
  }
  move_all(operations, engine);
  for (int r = 0; r < ranks; ++r) {
    const auto rank = static_cast<std::size_t>(r);
    const auto* const got = static_cast<const std::uint64_t*>(calls[rank].receive);
    for (std::size_t at = 0; at < receive_words; ++at)
      if (got[at] != expected(collective, ranks, r, part, at))
        return "rank " + std::to_string(r) + ": word " + std::to_string(at) + " is wrong";
    if (!sends[rank].is_untouched_around() || !receives[rank].is_untouched_around()) return "wrote beside a buffer";
    const auto* const sent = static_cast<const std::uint64_t*>(calls[rank].send);
    for (std::size_t at = 0; !in_place && at < send_words; ++at)
      if (sent[at] != input(r, at)) return "wrote to the input";
    // In place a reduce-scatter leaves the other ranks' parts as they were.
    if (in_place && collective == Collective::reduce_scatter)
      for (std::size_t at = 0; at < send_words; ++at)
        if (at / part != rank && sent[at] != input(r, at)) return "wrote to another rank's part";
  }
  return {};
}

}  // namespace

TEST_CASE("direct gives the same results as plain loops, for two to eight ranks, in and out of place") {
  std::mt19937_64 engine(1);
  for (const Collective collective : {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter})
    for (int ranks = 2; ranks <= kMaxRanks; ++ranks)
      for (const std::size_t cells : {1, 2, 7, 8, 9, 63, 64, 65, 130, 1000})
        for (const bool in_place : {false, true})
          for (const MethodConfig& config : {MethodConfig{Method::direct, 64, 512}, MethodConfig{Method::direct, 1, 32},
                                             MethodConfig{Method::direct, 3, 96}}) {
            CAPTURE(name(collective));
            CAPTURE(ranks);
            CAPTURE(cells);
            CAPTURE(in_place);
            REQUIRE(fault_of(collective, ranks, 2 * cells, in_place, config, engine) == "");
          }
}

TEST_CASE("each rank writes to itself first and then to the others in cyclic order") {
  alignas(16) static char memory[4][1024];
  PeerBuffers reach;
  for (int r = 0; r < 4; ++r) reach.send[r] = reach.receive[r] = memory[r];
  CollectiveCall call;
  call.collective = Collective::all_reduce;
  call.send = call.receive = memory[2];
  call.bytes = 1024;
  const DirectTransfer transfer = make_direct_operation(call, {Method::direct, 1, 32}, 2, 4, 64, reach).transfer;
  REQUIRE(transfer.target_count == 4);
  CHECK(transfer.targets[0] == memory[2] + 512);
  CHECK(transfer.targets[1] == memory[3] + 512);
  CHECK(transfer.targets[2] == memory[0] + 512);
  CHECK(transfer.source_count == 4);
  CHECK(transfer.sources[0] == memory[0] + 512);
}

TEST_CASE("in place an all-gather does not write its own part") {
  alignas(16) static char memory[2][1024];
  PeerBuffers reach;
  for (int r = 0; r < 2; ++r) reach.receive[r] = memory[r];
  CollectiveCall call;
  call.collective = Collective::all_gather;
  call.send = memory[1] + 512;
  call.receive = memory[1];
  call.bytes = 512;
  const DirectTransfer transfer = make_direct_operation(call, {Method::direct, 1, 32}, 1, 2, 64, reach).transfer;
  REQUIRE(transfer.target_count == 1);
  CHECK(transfer.targets[0] == memory[0] + 512);
}

TEST_CASE("direct supports only whole cells at aligned addresses") {
  alignas(16) static char memory[256];
  const auto is_for_it = [](Collective collective, std::size_t send, std::size_t receive, std::size_t bytes) {
    CollectiveCall call;
    call.collective = collective;
    call.send = memory + send;
    call.receive = memory + receive;
    call.bytes = bytes;
    return supports_direct(call);
  };
  for (const Collective collective : kCollectives)
    CHECK(is_for_it(collective, 0, 16, 32) == supports(collective, Method::direct));
  CHECK_FALSE(is_for_it(Collective::all_gather, 8, 16, 32));
  CHECK_FALSE(is_for_it(Collective::all_gather, 0, 4, 32));
  CHECK_FALSE(is_for_it(Collective::all_gather, 0, 16, 34));
}

TEST_CASE("slices of an all-reduce are whole lines, and are empty on the last ranks if the buffer is small") {
  alignas(16) static char memory[8][16 * 32];
  PeerBuffers reach;
  for (int r = 0; r < 8; ++r) reach.send[r] = reach.receive[r] = memory[r];
  const auto cells_of = [&](int rank, int ranks, std::size_t cells) {
    CollectiveCall call;
    call.send = call.receive = memory[rank];
    call.bytes = cells * kCellBytes;
    return make_direct_operation(call, {Method::direct, 1, 32}, rank, ranks, 64, reach).transfer.cell_count;
  };
  CHECK(cells_of(0, 3, 25) == 16);
  CHECK(cells_of(1, 3, 25) == 9);
  CHECK(cells_of(2, 3, 25) == 0);
  for (int rank = 0; rank < 8; ++rank) CHECK(cells_of(rank, 8, 1) == (rank == 0 ? 1 : 0));
}
