// Steps of the check: fills guards, poison and send data; compares the result; compares all bytes that must not change.
#include "measure/checker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace busbw {
namespace {

/// Source rank of the data stream that serves as poison. No rank has this number.
constexpr int kPoisonSource = -1;

constexpr const char* kReceiveBuffer = "receive buffer";

struct Guard {
  std::byte* memory;
  DataStream stream;  // different for each guard and each check
  std::string name;
};

/// The guards of the send region and of the receive region.
std::array<Guard, 4> guards_of(const RankCase& rank_case, std::span<std::byte> send, std::span<std::byte> recv) {
  const std::uint64_t first_seed = rank_case.seed * 4;
  return {{{send.data() - kGuardBytes, guard_stream(first_seed), "guard before the send buffer"},
           {send.data() + send.size(), guard_stream(first_seed + 1), "guard after the send buffer"},
           {recv.data() - kGuardBytes, guard_stream(first_seed + 2), "guard before the receive buffer"},
           {recv.data() + recv.size(), guard_stream(first_seed + 3), "guard after the receive buffer"}}};
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
  for (const Guard& guard : guards_of(rank_case, buffers_.send_region(), recv))
    communicator_.fill(guard.memory, guard.stream, 0, kGuardBytes);
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
  const std::size_t result_begin = result_start(rank_case, placement);
  const std::size_t result_end = result_begin + rank_case.shape.recv_count;
  Mismatches mismatches;
  // In place, the result may lie within the send data. The rest of the send data must stay unchanged.
  compare_untouched(rank_case, placement, 0, result_begin, mismatches);
  for (const Segment& segment : expected_segments(rank_case)) {
    if (segment.source != Segment::Source::untouched) continue;
    const std::size_t segment_begin = result_begin + segment.offset;
    compare_untouched(rank_case, placement, segment_begin, segment_begin + segment.count, mismatches);
  }
  compare_untouched(rank_case, placement, result_end, recv.size() / element_bytes, mismatches);
  add_wrong_elements(mismatches, rank_case.dtype, kReceiveBuffer, check_result);
  for (const Guard& guard : guards_of(rank_case, buffers_.send_region(), recv)) {
    Mismatches guard_mismatches;
    communicator_.compare(guard.memory, guard.stream, 0, kGuardBytes, 0, guard_mismatches);
    add_wrong_elements(guard_mismatches, Dtype::uint8, guard.name + ", byte", check_result);
  }
}

std::size_t Checker::result_start(const RankCase& rank_case, Placement placement) const {
  const std::ptrdiff_t offset_bytes = buffers_.recv_data(placement) - buffers_.recv_region(placement).data();
  return static_cast<std::size_t>(offset_bytes) / size_bytes(rank_case.dtype);
}

void Checker::compare_untouched(const RankCase& rank_case, Placement placement, std::size_t from, std::size_t to,
                                Mismatches& mismatches) {
  const std::size_t element_bytes = size_bytes(rank_case.dtype);
  std::byte* const region = buffers_.recv_region(placement).data();
  const auto compare = [&](std::size_t begin, std::size_t end, const DataStream& stream,
                           std::uint64_t stream_position) {
    // The index of a wrong element counts from the start of the result. An index before the result wraps around here,
    // and its conversion in `add_wrong_elements` makes it negative.
    const std::size_t index_in_result = begin - result_start(rank_case, placement);
    communicator_.compare(region + begin * element_bytes, stream, stream_position, end - begin, index_in_result,
                          mismatches);
  };
  const auto compare_poison = [&](std::size_t begin, std::size_t end) {
    compare(begin, end, poison_stream(rank_case), begin);
  };
  if (placement == Placement::out_of_place) return compare_poison(from, to);
  // In place, this region also holds the send data: compare its segments, and the poison between them.
  const std::size_t send_start = static_cast<std::size_t>(buffers_.send_data(placement) - region) / element_bytes;
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
