// Tests of operations from the call to the bytes. The works of all ranks run in lockstep with immediate delivery of
// cells, and the results are compared with plain loops. test_schedule.cpp tests the possible orders.
#include "fastpath/schedule/work.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "fastpath/choice/operation.hpp"
#include "fastpath/choice/table.hpp"
#include "fastpath/schedule/work_list.hpp"

using namespace busbw::fastpath;

namespace {

using Bytes = std::vector<unsigned char>;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kSizeStride = 11;
#else
constexpr std::size_t kSizeStride = 1;
#endif

unsigned char byte_of(std::size_t number, int rank, std::size_t at) {
  return static_cast<unsigned char>((number * 7 + static_cast<std::size_t>(rank) * 89 + at * 13 + at / 251) % 256);
}

unsigned char reduced(unsigned char so_far, unsigned char next) {
  return static_cast<unsigned char>(so_far * 5 + next);
}

/// Reduction of single bytes with a result that depends on the order.
struct Hash {
  template <int kMax>
  Cell of(const Cell (&cells)[kMax], int ranks) const {
    Cell result = cells[0];
    for (int rank = 1; rank < ranks; ++rank) {
      result.low = of_bytes(result.low, cells[rank].low);
      result.high = of_bytes(result.high, cells[rank].high);
    }
    return result;
  }

  static std::uint64_t of_bytes(std::uint64_t a, std::uint64_t b) {
    unsigned char bytes[8];
    unsigned char next[8];
    std::memcpy(bytes, &a, 8);
    std::memcpy(next, &b, 8);
    for (int i = 0; i < 8; ++i) bytes[i] = reduced(bytes[i], next[i]);
    std::memcpy(&a, bytes, 8);
    return a;
  }
};

/// Memory that begins `offset` bytes after an aligned address, between guard bytes. Optionally without guard bytes, so
/// that the address sanitizer detects reads beyond its end.
class Guarded {
 public:
  Guarded(std::size_t offset, std::size_t size, bool has_guard)
      : first_(offset + (has_guard ? 64 : 0)), size_(size), all_size_(first_ + size + (has_guard ? 64 : 0)) {
    all_ = std::make_unique<unsigned char[]>(all_size_);
    std::memset(all_.get(), kGuard, all_size_);
  }

  unsigned char* data() const { return all_.get() + first_; }
  std::size_t size() const { return size_; }
  Bytes bytes() const { return {data(), data() + size_}; }
  bool is_untouched_around() const {
    for (std::size_t i = 0; i < all_size_; ++i)
      if ((i < first_ || i >= first_ + size_) && all_[i] != kGuard) return false;
    return true;
  }

 private:
  static constexpr unsigned char kGuard = 0xa5;

  std::size_t first_;
  std::size_t size_;
  std::size_t all_size_;
  std::unique_ptr<unsigned char[]> all_;
};

struct Case {
  Collective collective = Collective::all_reduce;
  Method method = Method::exchange;
  int ranks = 2;
  std::size_t bytes = 0;
  std::size_t number = 0;  ///< seed of the data and of all values below

  bool in_place() const { return number % 3 == 0; }
  bool has_guard() const { return number % 2 == 0; }
  bool goes_backwards() const { return number / 2 % 2 == 0; }
  int root() const { return static_cast<int>(number / 5 % static_cast<std::size_t>(ranks)); }
  std::size_t send_offset() const { return number % 5 == 0 ? 0 : number / 3 % 17; }
  std::size_t receive_offset() const { return number % 5 == 0 ? 0 : number / 7 % 17; }
  MethodConfig config() const {
    constexpr MethodConfig kChoices[] = {
        {Method::exchange, 1, 32}, {Method::exchange, 3, 64}, {Method::exchange, 4, 512}};
    MethodConfig config = kChoices[number / 11 % 3];
    config.method = method;
    return config;
  }
  int cells() const { return number / 3 % 2 == 0 ? 1024 : 128; }  ///< number of cells with slots
  std::string text() const {
    return std::string(name(collective)) + " by " + std::string(name(method)) + ", " + std::to_string(ranks) +
           " ranks, " + std::to_string(bytes) + " bytes, number " + std::to_string(number);
  }
};

/// Input and output of a rank. In place they overlap as NCCL requires.
struct Rank {
  std::unique_ptr<Guarded> send;
  std::unique_ptr<Guarded> receive;
  unsigned char* from = nullptr;
  unsigned char* to = nullptr;
  std::size_t to_size = 0;
};

Rank rank_of(const Case& c, int rank) {
  const std::size_t parts = c.bytes * static_cast<std::size_t>(c.ranks);
  const auto& facts = facts_of(c.collective);
  const std::size_t from_size = facts.sends_shares ? parts : c.bytes;
  Rank one;
  one.to_size = facts.receives_shares ? parts : c.bytes;
  const std::size_t own = static_cast<std::size_t>(rank) * c.bytes;
  if (c.in_place()) {
    one.receive = std::make_unique<Guarded>(c.receive_offset(), std::max(from_size, one.to_size), c.has_guard());
    one.from = one.receive->data() + (from_size < one.to_size ? own : 0);
    one.to = one.receive->data() + (one.to_size < from_size ? own : 0);
  } else {
    one.send = std::make_unique<Guarded>(c.send_offset(), from_size, c.has_guard());
    one.receive = std::make_unique<Guarded>(c.receive_offset(), one.to_size, c.has_guard());
    one.from = one.send->data();
    one.to = one.receive->data();
  }
  for (std::size_t i = 0; i < from_size; ++i) one.from[i] = byte_of(c.number, rank, i);
  return one;
}

unsigned char expected_byte(const Case& c, int rank, std::size_t at) {
  const auto reduced_at = [&](std::size_t place) {
    unsigned char value = byte_of(c.number, 0, place);
    for (int r = 1; r < c.ranks; ++r) value = reduced(value, byte_of(c.number, r, place));
    return value;
  };
  const std::size_t own = static_cast<std::size_t>(rank) * c.bytes;
  switch (c.collective) {
    case Collective::all_reduce: return reduced_at(at);
    case Collective::reduce_scatter: return reduced_at(own + at);
    case Collective::all_gather: return byte_of(c.number, static_cast<int>(at / c.bytes), at % c.bytes);
    case Collective::alltoall: return byte_of(c.number, static_cast<int>(at / c.bytes), own + at % c.bytes);
    case Collective::broadcast: return byte_of(c.number, c.root(), at);
  }
  return 0;
}

/// The cells of each rank for each rank.
struct Exchanged {
  Cell of[kMaxRanks][kMaxRanks];
};

/// Value of cells that a schedule does not set. They must not affect the result.
Exchanged unknown() {
  Exchanged all;
  for (auto& row : all.of)
    for (Cell& cell : row) cell = {0xbadbadbadbadbad1, 0xbadbadbadbadbad2};
  return all;
}

/// Runs the threads of all ranks one after another, each with all its steps.
template <bool kTwoShot, class Work>
void run_in_step(const std::vector<Work>& works, const Grid& grid, bool goes_backwards) {
  const auto ranks = static_cast<int>(works.size());
  const int threads = grid.blocks * grid.threads;
  const Exchanged nothing = unknown();
  for (int i = 0; i < threads; ++i) {
    const int thread = goes_backwards ? threads - 1 - i : i;
    for (int step = 0; step < grid.steps; ++step) {
      const std::int64_t first = static_cast<std::int64_t>(step) * grid.batch * threads + thread;
      std::vector<Exchanged> sent(static_cast<std::size_t>(grid.batch), nothing);
      std::vector<Exchanged> results = sent;
      for (int rank = 0; rank < ranks; ++rank) {
        std::int64_t index = first;
        for (Exchanged& cells : sent) {
          works[static_cast<std::size_t>(rank)].load(index, cells.of[rank]);
          index += threads;
        }
      }
      for (int rank = 0; rank < ranks; ++rank) {
        const Work& work = works[static_cast<std::size_t>(rank)];
        std::int64_t index = first;
        for (std::size_t turn = 0; turn < sent.size(); ++turn, index += threads) {
          Exchanged got = nothing;
          work.load_own(index, got.of[rank]);
          for (int peer = 0; peer < ranks; ++peer)
            if (peer != rank) got.of[rank][peer] = sent[turn].of[peer][rank];
          if constexpr (kTwoShot) {
            const Cell result = work.reduce(got.of[rank]);
            for (int peer = 0; peer < ranks; ++peer)
              if (peer != rank) results[turn].of[peer][rank] = result;
            work.keep(index, result);
          } else {
            work.store(index, got.of[rank]);
          }
        }
      }
      if constexpr (kTwoShot)
        for (int rank = 0; rank < ranks; ++rank) {
          std::int64_t index = first;
          for (const Exchanged& cells : results) {
            works[static_cast<std::size_t>(rank)].store_others(index, cells.of[rank]);
            index += threads;
          }
        }
    }
  }
}

template <class Work, bool kTwoShot, class... Reduction>
void run(const std::vector<Operation>& operations, const Case& c, Reduction... reduction) {
  std::vector<Work> works;
  for (const Operation& operation : operations) works.push_back(Work{operation.buffers, reduction...});
  run_in_step<kTwoShot>(works, operations.front().grid, c.goes_backwards());
}

void run_all(const std::vector<Operation>& operations, const Case& c) {
  const auto run_entry = [&](auto entry, auto... reduction) {
    using Entry = decltype(entry);
    if constexpr (Entry::kMethod != Method::direct)
      run<typename Entry::Work, Entry::kMethod == Method::two_shot>(operations, c, reduction...);
  };
  if (facts_of(c.collective).reduces)
    REQUIRE(visit_work(ReducingWorks<Hash>{}, c.collective, c.method, [&](auto entry) { run_entry(entry, Hash{}); }));
  else
    REQUIRE(visit_work(MovingWorks{}, c.collective, c.method, run_entry));
}

/// Returns a description of the error. Empty if the result is correct.
std::string fault_of(const Case& c) {
  std::vector<Rank> ranks;
  std::vector<Operation> operations;
  for (int rank = 0; rank < c.ranks; ++rank) {
    ranks.push_back(rank_of(c, rank));
    CollectiveCall call;
    call.collective = c.collective;
    const bool has_input = !facts_of(c.collective).only_root_sends || rank == c.root() || c.in_place();
    call.send = has_input ? ranks.back().from : nullptr;
    call.receive = ranks.back().to;
    call.bytes = c.bytes;
    call.root = c.root();
    operations.push_back(make_operation(call, c.config(), rank, c.ranks, c.cells()));
    const Grid& grid = operations.back().grid;
    const Grid& first = operations.front().grid;
    if (grid.blocks != first.blocks || grid.threads != first.threads || grid.batch != first.batch ||
        grid.steps != first.steps)
      return c.text() + ": ranks have different grids";
  }
  std::vector<Bytes> before;
  for (const Rank& one : ranks) before.push_back(c.in_place() ? one.receive->bytes() : one.send->bytes());
  run_all(operations, c);
  for (int rank = 0; rank < c.ranks; ++rank) {
    const Rank& one = ranks[static_cast<std::size_t>(rank)];
    const std::string who = c.text() + ", rank " + std::to_string(rank);
    for (std::size_t at = 0; at < one.to_size; ++at)
      if (one.to[at] != expected_byte(c, rank, at)) return who + ": byte " + std::to_string(at) + " is wrong";
    if (!one.receive->is_untouched_around()) return who + ": wrote beside the output";
    if (one.send && (!one.send->is_untouched_around() || one.send->bytes() != before[static_cast<std::size_t>(rank)]))
      return who + ": wrote to the input";
    // In place a reduce-scatter leaves the other ranks' parts as they were.
    if (c.in_place()) {
      const std::size_t first = static_cast<std::size_t>(one.to - one.receive->data());
      for (std::size_t at = 0; at < one.receive->size(); ++at)
        if ((at < first || at >= first + one.to_size) &&
            one.receive->data()[at] != before[static_cast<std::size_t>(rank)][at])
          return who + ": wrote to other ranks' parts";
    }
  }
  return {};
}

/// Calls `visit` with every collective and each of its methods, except for `direct`, which test_direct.cpp tests.
template <class Visit>
void for_every_method(const Visit& visit) {
  for (const Collective collective : kCollectives)
    for (const Method method : {Method::exchange, Method::two_shot})
      if (supports(collective, method)) visit(collective, method);
}

}  // namespace

TEST_CASE("every method of a collective, with two to eight ranks, 0 to 1000 bytes and any alignment") {
  std::size_t number = 0;
  for_every_method([&](Collective collective, Method method) {
    for (int ranks = 2; ranks <= kMaxRanks; ++ranks)
      for (std::size_t bytes = 0; bytes <= 1000; bytes += 1 + number++ % kSizeStride) {
        const std::string fault = fault_of({collective, method, ranks, bytes, number});
        REQUIRE_MESSAGE(fault.empty(), fault);
      }
  });
  CHECK(number > 49 * 1000 / kSizeStride);
}

TEST_CASE("every method of a collective with larger buffers, aligned and unaligned, in and out of place") {
  for_every_method([](Collective collective, Method method) {
    for (const int ranks : {2, 3, 5, 8})
      for (const std::size_t bytes : {std::size_t{4096}, std::size_t{12345}, std::size_t{65536 + 6}})
        for (std::size_t number = 0; number < 6; number += kSizeStride) {
          const std::string fault = fault_of({collective, method, ranks, bytes, number * 7});
          REQUIRE_MESSAGE(fault.empty(), fault);
        }
  });
}
