// Injects faults: wraps a rank's team and collective in faulty ones, and changes bytes of results. Results may be in
// device memory, so the communicator reads them (`compare`) and writes them (`fill`).
#include "run/rank_faults.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <limits>
#include <span>
#include <thread>
#include <vector>

#include "collectives/forwarding_collective.hpp"
#include "common/support/error.hpp"

namespace busbw {
namespace {

class FaultyTeam final : public Team {
 public:
  FaultyTeam(Team& inner, const Fault& fault) : inner_(inner), fault_(fault) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void barrier() override { inner_.barrier(); }
  std::vector<Bytes> gather(std::span<const std::byte> own_bytes) override { return inner_.gather(own_bytes); }
  Bytes broadcast(std::span<const std::byte> own_bytes) override { return inner_.broadcast(own_bytes); }
  std::unique_ptr<Team> split(int color) override { return inner_.split(color); }
  bool aborted() const override { return inner_.aborted(); }
  IssuedOperations& issued() override { return inner_.issued(); }
  void enter(Phase phase) override {
    inner_.enter(phase);
    if (fault_.phase != phase) return;
    if (fault_.kind == Fault::Kind::die) kill(getpid(), SIGKILL);
    while (fault_.kind == Fault::Kind::hang) pause();
  }

 private:
  Team& inner_;
  const Fault fault_;
};

class DelayedCollective final : public ForwardingCollective {
 public:
  DelayedCollective(const Collective& inner, std::uint64_t delay_us)
      : ForwardingCollective(inner), delay_(static_cast<std::int64_t>(delay_us) * inner.operations_per_run()) {}
  void run(Communicator& communicator, const CollectiveCall& call) const override {
    std::this_thread::sleep_for(delay_);
    inner_.run(communicator, call);
  }

 private:
  const std::chrono::microseconds delay_;
};

/// Memory from the first to the last element that the rank receives.
std::span<std::byte> received_memory(const Communicator& communicator, const RankCase& rank_case, std::byte* recv) {
  const std::size_t element_bytes = size_bytes(rank_case.dtype);
  std::size_t first = std::numeric_limits<std::size_t>::max();
  std::size_t end = 0;
  const RankPosition position = rank_case.position_in(communicator);
  for (const Segment& segment : rank_case.collective.expected_segments(rank_case.shape, position)) {
    if (segment.source == Segment::Source::untouched || segment.count == 0) continue;
    first = std::min(first, segment.offset);
    end = std::max(end, segment.offset + segment.count);
  }
  if (end == 0) return {};
  return {recv + first * element_bytes, (end - first) * element_bytes};
}

/// Data stream of one-byte elements that all have the same value.
DataStream stream_of(std::byte value) { return {std::make_shared<const std::vector<std::byte>>(kTileElements, value)}; }

/// Inverts the bits of `mask` in a byte. Reads the byte by a comparison with 0, which reports the value if they differ.
void invert_bits(Communicator& communicator, std::byte* byte, std::byte mask) {
  Mismatches differences_from_zero;
  communicator.compare(byte, stream_of(std::byte{0}), /*first=*/0, /*elements=*/1, /*index_base=*/0,
                       differences_from_zero);
  const auto& differences = differences_from_zero.first;
  const std::byte value = differences.empty() ? std::byte{0} : differences.front().got[0];
  communicator.fill(byte, stream_of(value ^ mask), /*first=*/0, /*elements=*/1);
}

}  // namespace

std::unique_ptr<Team> make_faulty_team(Team& world, const Fault& fault) {
  return std::make_unique<FaultyTeam>(world, fault);
}

std::unique_ptr<Collective> make_delayed_collective(const Collective& collective, std::uint64_t delay_us) {
  return std::make_unique<DelayedCollective>(collective, delay_us);
}

void delay_call(const Fault& fault) { std::this_thread::sleep_for(std::chrono::microseconds(fault.delay_us)); }

bool flip_bit(const Fault& fault, std::span<std::int32_t> result) {
  if (fault.index >= result.size() || fault.bit >= 32) return false;
  result[fault.index] ^= std::int32_t(1u << fault.bit);
  return true;
}

bool corrupt_result(const Fault& fault, Communicator& communicator, const RankCase& rank_case, std::byte* recv) {
  const auto result = received_memory(communicator, rank_case, recv);
  if (result.empty()) return false;
  if (fault.kind == Fault::Kind::overrun) {
    invert_bits(communicator, result.data() + result.size(), std::byte{0xff});
    return true;
  }
  if (fault.kind != Fault::Kind::flip) return false;
  const std::size_t element_bytes = size_bytes(rank_case.dtype);
  const auto bit = static_cast<std::size_t>(fault.bit);
  const bool has_element = fault.index < result.size() / element_bytes;
  const bool has_bit = bit < 8 * element_bytes;
  if (!has_element || !has_bit) return false;
  // Byte 0 holds the lowest bits: all supported machines are little-endian.
  invert_bits(communicator, &result[fault.index * element_bytes + bit / 8], std::byte{1} << (bit % 8));
  return true;
}

void require_effect(const Fault& fault, bool has_changed_result) {
  const bool is_flip = fault.kind == Fault::Kind::flip;
  const bool changes_results = is_flip || fault.kind == Fault::Kind::overrun;
  if (!changes_results || has_changed_result) return;
  if (is_flip)
    throw UsageError(
        fmt::format("--fault flip: no checked result of rank {} has element {} with bit {}; use a rank with a result, "
                    "and a smaller index or bit",
                    fault.rank, fault.index, fault.bit));
  throw UsageError(fmt::format("--fault overrun: rank {} has no checked result; use a rank with a result", fault.rank));
}

}  // namespace busbw
