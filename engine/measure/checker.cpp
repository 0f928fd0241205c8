// Steps of the check: fills guards, poison and send data; compares the result; compares all bytes that must not change.
#include "measure/checker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace busbw {
namespace {

/// Source rank of the data stream that serves as poison. No rank has this number.
constexpr int kPoisonSource = -1;

constexpr const char* kReceiveBuffer = "receive buffer";

/// The four guards. Each has its own seed.
enum class Guard : std::uint64_t { before_send, after_send, before_recv, after_recv };

std::uint64_t guard_seed(const RankCase& rank_case, Guard guard) {
  return rank_case.seed * 4 + static_cast<std::uint64_t>(guard);
}

}  // namespace

DataStream Checker::stream_of(const RankCase& rank_case, const Segment& segment) {
  switch (segment.source) {
    case Segment::Source::contribution: return values_.contribution(segment.source_rank, rank_case.seed);
    case Segment::Source::reduced: return values_.reduced(rank_case.seed);
    case Segment::Source::moved: return moved_stream(rank_case.dtype, segment.source_rank, rank_case.seed);
    case Segment::Source::untouched: break;
  }
  return poison_stream(rank_case);
}

DataStream Checker::poison_stream(const RankCase& rank_case) const {
  return moved_stream(rank_case.dtype, kPoisonSource, rank_case.seed);
}

void Checker::prepare(const RankCase& rank_case, Placement placement) {
  const std::size_t element_bytes = size_bytes(rank_case.dtype);
  const auto recv = buffers_.recv_region(placement);
  const auto send = buffers_.send_region();
  const auto fill_guard = [&](std::byte* memory, Guard guard) {
    communicator_.fill(memory, guard_stream(guard_seed(rank_case, guard)), 0, kGuardBytes);
  };
  fill_guard(send.data() - kGuardBytes, Guard::before_send);
  fill_guard(send.data() + send.size(), Guard::after_send);
  fill_guard(recv.data() - kGuardBytes, Guard::before_recv);
  fill_guard(recv.data() + recv.size(), Guard::after_recv);
  communicator_.fill(recv.data(), poison_stream(rank_case), 0, recv.size() / element_bytes);
  for (const Segment& segment : send_segments(rank_case))
    communicator_.fill(buffers_.send_data(placement) + segment.offset * element_bytes, stream_of(rank_case, segment),
                       segment.first, segment.count);
  communicator_.synchronize();
}

RankCheckResult Checker::verify_result(const RankCase& rank_case, Placement placement) {
  const std::size_t element_bytes = size_bytes(rank_case.dtype);
  Mismatches mismatches;
  for (const Segment& segment : expected_segments(rank_case)) {
    if (segment.source == Segment::Source::untouched) continue;
    communicator_.compare(buffers_.recv_data(placement) + segment.offset * element_bytes, stream_of(rank_case, segment),
                          segment.first, segment.count, segment.offset, mismatches);
  }
  RankCheckResult check_result;
  add_wrong_elements(mismatches, rank_case.dtype, kReceiveBuffer, check_result);
  return check_result;
}

void Checker::verify_untouched(const RankCase& rank_case, Placement placement, RankCheckResult& check_result) {
  const std::size_t element_bytes = size_bytes(rank_case.dtype);
  const auto recv = buffers_.recv_region(placement);
  const std::size_t result_start =
      static_cast<std::size_t>(buffers_.recv_data(placement) - recv.data()) / element_bytes;
  Mismatches mismatches;
  // In place, the result may lie within the send data. The rest of the send data must stay unchanged.
  compare_untouched(rank_case, placement, 0, result_start, mismatches);
  for (const Segment& segment : expected_segments(rank_case))
    if (segment.source == Segment::Source::untouched)
      compare_untouched(rank_case, placement, result_start + segment.offset,
                        result_start + segment.offset + segment.count, mismatches);
  compare_untouched(rank_case, placement, result_start + rank_case.shape.recv_count, recv.size() / element_bytes,
                    mismatches);
  add_wrong_elements(mismatches, rank_case.dtype, kReceiveBuffer, check_result);
  const auto send = buffers_.send_region();
  compare_guard(send.data() - kGuardBytes, guard_seed(rank_case, Guard::before_send), "guard before the send buffer",
                check_result);
  compare_guard(send.data() + send.size(), guard_seed(rank_case, Guard::after_send), "guard after the send buffer",
                check_result);
  compare_guard(recv.data() - kGuardBytes, guard_seed(rank_case, Guard::before_recv), "guard before the receive buffer",
                check_result);
  compare_guard(recv.data() + recv.size(), guard_seed(rank_case, Guard::after_recv), "guard after the receive buffer",
                check_result);
}

Segments Checker::send_segments(const RankCase& rank_case) const {
  return rank_case.collective.send_segments(rank_case.shape, size_bytes(rank_case.dtype), communicator_.rank(),
                                            communicator_.size(), rank_case.root);
}

Segments Checker::expected_segments(const RankCase& rank_case) const {
  return rank_case.collective.expected_segments(rank_case.shape, size_bytes(rank_case.dtype), communicator_.rank(),
                                                communicator_.size(), rank_case.root);
}

void Checker::compare_untouched(const RankCase& rank_case, Placement placement, std::size_t from, std::size_t to,
                                Mismatches& mismatches) {
  const std::size_t element_bytes = size_bytes(rank_case.dtype);
  std::byte* const region = buffers_.recv_region(placement).data();
  const auto position_of = [&](const std::byte* address) {
    return static_cast<std::size_t>(address - region) / element_bytes;
  };
  const std::size_t result_start = position_of(buffers_.recv_data(placement));
  const auto compare = [&](std::size_t begin, std::size_t end, const DataStream& stream, std::uint64_t first) {
    // Indices count from the result. Those before it wrap around and become negative in `add_wrong_elements`.
    communicator_.compare(region + begin * element_bytes, stream, first, end - begin, begin - result_start, mismatches);
  };
  const auto compare_poison = [&](std::size_t begin, std::size_t end) {
    compare(begin, end, poison_stream(rank_case), begin);
  };
  if (placement == Placement::out_of_place) return compare_poison(from, to);
  // In place, this region also holds the send data: compare its segments, with poison between them.
  const std::size_t send_start = position_of(buffers_.send_data(placement));
  std::size_t compared_end = from;
  for (const Segment& segment : send_segments(rank_case)) {
    const std::size_t segment_start = send_start + segment.offset;
    const std::size_t begin = std::clamp(segment_start, compared_end, to);
    const std::size_t end = std::clamp(segment_start + segment.count, compared_end, to);
    compare_poison(compared_end, begin);
    compare(begin, end, stream_of(rank_case, segment), segment.first + (begin - segment_start));
    compared_end = end;
  }
  compare_poison(compared_end, to);
}

void Checker::compare_guard(std::byte* guard, std::uint64_t seed, const std::string& buffer,
                            RankCheckResult& check_result) {
  Mismatches mismatches;
  communicator_.compare(guard, guard_stream(seed), 0, kGuardBytes, 0, mismatches);
  add_wrong_elements(mismatches, Dtype::uint8, buffer + ", byte", check_result);
}

void Checker::add_wrong_elements(const Mismatches& mismatches, Dtype dtype, const std::string& buffer,
                                 RankCheckResult& check_result) {
  check_result.wrong_elements += mismatches.count;
  const auto add = [&](std::uint64_t index, std::string expected, std::string got) {
    if (check_result.first_wrong.size() < Mismatches::kKept)
      check_result.first_wrong.push_back(
          {world_rank_, buffer, static_cast<std::int64_t>(index), std::move(expected), std::move(got)});
  };
  if (mismatches.vanished > 0)
    add(mismatches.vanished_range_start, "correct data at the comparison",
        fmt::format("{} wrong elements from here on that were correct when read again", mismatches.vanished));
  for (const Mismatch& mismatch : mismatches.first)
    add(mismatch.index, element_text(dtype, mismatch.expected.data()), element_text(dtype, mismatch.got.data()));
}

}  // namespace busbw
