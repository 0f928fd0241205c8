// Direct operations on the host: the bytes that each rank reads and writes, compared with plain loops.
#include "fastpath/direct.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "fastpath/operation.hpp"
#include "fastpath/table.hpp"

using namespace busbw::fastpath;

namespace {

using Words = std::vector<std::uint64_t>;
constexpr std::size_t kGuardWords = 8;
constexpr std::uint64_t kGuard = 0x5b5b5b5b5b5b5b5b;
constexpr int kCellsOfStep = 4096;

/// In another order it comes to something else.
std::uint64_t combined(std::uint64_t a, std::uint64_t b) { return a * 31 + b; }

struct InOrder {
  template <int kMost>
  Cell of(const Cell (&cells)[kMost], int count) const {
    Cell result = cells[0];
    for (int i = 1; i < count; ++i) result = {combined(result.low, cells[i].low), combined(result.high, cells[i].high)};
    return result;
  }
};

struct OneThread {
  static constexpr int kMaxRanks = busbw::fastpath::kMaxRanks;
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

/// What rank `rank` must hold at `at` of its output, of `part` words for each rank.
std::uint64_t expected(Collective collective, int ranks, int rank, std::size_t part, std::size_t at) {
  if (collective == Collective::all_gather) return input(static_cast<int>(at / part), at % part);
  const std::size_t from = collective == Collective::reduce_scatter ? static_cast<std::size_t>(rank) * part + at : at;
  std::uint64_t result = input(0, from);
  for (int r = 1; r < ranks; ++r) result = combined(result, input(r, from));
  return result;
}

std::string fault_of(Collective collective, int ranks, std::size_t part, bool in_place, Choice choice) {
  const std::size_t all = part * static_cast<std::size_t>(ranks);
  const std::size_t send_words = collective == Collective::reduce_scatter ? all : part;
  const std::size_t receive_words = collective == Collective::all_gather ? all : part;
  std::vector<Buffer> sends;
  std::vector<Buffer> receives;
  for (int r = 0; r < ranks; ++r) {
    sends.emplace_back(in_place ? std::max(send_words, receive_words) : send_words);
    receives.emplace_back(receive_words);
  }
  std::vector<Call> calls;
  for (int r = 0; r < ranks; ++r) {
    const auto rank = static_cast<std::size_t>(r);
    std::uint64_t* const base = sends[rank].data();
    const std::size_t own = rank * part;
    std::uint64_t* const send = base + (in_place && collective == Collective::all_gather ? own : 0);
    std::uint64_t* receive = receives[rank].data();
    if (in_place) receive = base + (collective == Collective::reduce_scatter ? own : 0);
    for (std::size_t at = 0; at < send_words; ++at) send[at] = input(r, at);
    Call call;
    call.collective = collective;
    call.send = send;
    call.receive = receive;
    call.bytes = part * 8;
    calls.push_back(call);
  }
  for (int r = 0; r < ranks; ++r) {
    const Call& call = calls[static_cast<std::size_t>(r)];
    if (!is_for_direct(call)) return "is not for direct";
    Reach reach;
    for (int p = 0; p < ranks; ++p) {
      const Call& peer = calls[static_cast<std::size_t>(p)];
      reach.send[p] = static_cast<char*>(const_cast<void*>(peer.send));
      reach.receive[p] = static_cast<char*>(peer.receive);
    }
    const Operation operation = direct_operation_of(call, choice, r, ranks, kCellsOfStep, reach);
    if (operation.grid.steps != kDirectSteps || operation.grid.batch != 1) return "the grid has other steps";
    const int threads = operation.grid.blocks * operation.grid.threads;
    if (threads > kCellsOfStep) return "more threads than there are slots";
    for (int thread = 0; thread < threads; ++thread) {
      const OneThread fabric{thread, threads};
      if (collective == Collective::all_gather)
        DirectCopy{operation.share}.move(fabric);
      else
        DirectReduction<InOrder>{operation.share, {}}.move(fabric);
    }
  }
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

TEST_CASE("direct gives every rank what plain loops give, for two to eight ranks, in and out of place") {
  for (const Collective collective : {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter})
    for (int ranks = 2; ranks <= kMaxRanks; ++ranks)
      for (const std::size_t cells : {1, 2, 7, 8, 9, 63, 64, 65, 130, 1000})
        for (const bool in_place : {false, true})
          for (const Choice& choice :
               {Choice{Method::direct, 64, 512}, Choice{Method::direct, 1, 32}, Choice{Method::direct, 3, 96}}) {
            CAPTURE(name(collective));
            CAPTURE(ranks);
            CAPTURE(cells);
            CAPTURE(in_place);
            REQUIRE(fault_of(collective, ranks, 2 * cells, in_place, choice) == "");
          }
}

TEST_CASE("each rank writes to itself first and to the others in turn") {
  alignas(16) static char memory[4][1024];
  Reach reach;
  for (int r = 0; r < 4; ++r) reach.send[r] = reach.receive[r] = memory[r];
  Call call;
  call.collective = Collective::all_reduce;
  call.send = call.receive = memory[2];
  call.bytes = 1024;
  const Share share = direct_operation_of(call, {Method::direct, 1, 32}, 2, 4, 64, reach).share;
  REQUIRE(share.target_count == 4);
  CHECK(share.targets[0] == memory[2] + 512);
  CHECK(share.targets[1] == memory[3] + 512);
  CHECK(share.targets[2] == memory[0] + 512);
  CHECK(share.source_count == 4);
  CHECK(share.sources[0] == memory[0] + 512);
}

TEST_CASE("in place an all-gather does not write its own part") {
  alignas(16) static char memory[2][1024];
  Reach reach;
  for (int r = 0; r < 2; ++r) reach.receive[r] = memory[r];
  Call call;
  call.collective = Collective::all_gather;
  call.send = memory[1] + 512;
  call.receive = memory[1];
  call.bytes = 512;
  const Share share = direct_operation_of(call, {Method::direct, 1, 32}, 1, 2, 64, reach).share;
  REQUIRE(share.target_count == 1);
  CHECK(share.targets[0] == memory[0] + 512);
}
