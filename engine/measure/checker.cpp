#include "measure/checker.hpp"

#include <algorithm>

namespace busbw {
namespace {

/// Source number of the pattern that stands where no result has been written; no rank has it.
constexpr int kPoisonSource = -1;

/// The four guards, each with a seed of its own.
enum class Guard : std::uint64_t { before_send, after_send, before_recv, after_recv };

std::uint64_t guard_seed(const RankCase& rank_case, Guard guard) { return rank_case.seed * 4 + static_cast<std::uint64_t>(guard); }

const Tolerance& exactly() {
  static const Tolerance exact;
  return exact;
}

}  // namespace

Stream Checker::stream_of(const RankCase& rank_case, const Piece& piece) {
  switch (piece.source) {
    case Piece::Source::contribution: return values_.contribution(piece.source_rank, rank_case.seed);
    case Piece::Source::reduced: return values_.reduced(rank_case.seed);
    case Piece::Source::moved: return moved_stream(rank_case.dtype, piece.source_rank, rank_case.seed);
    case Piece::Source::untouched: break;
  }
  return poison(rank_case);
}

Stream Checker::poison(const RankCase& rank_case) const {
  return moved_stream(rank_case.dtype, kPoisonSource, rank_case.seed);
}

void Checker::prepare(const RankCase& rank_case, Placement placement) {
  const std::size_t element_bytes = size_bytes(rank_case.dtype);
  const auto recv = buffers_.recv_region(placement);
  const auto send = buffers_.send_region();
  const auto guard = [&](std::byte* at, Guard which) {
    communicator_.fill(at, guard_stream(guard_seed(rank_case, which)), 0, kGuardBytes);
  };
  guard(send.data() - kGuardBytes, Guard::before_send);
  guard(send.data() + send.size(), Guard::after_send);
  guard(recv.data() - kGuardBytes, Guard::before_recv);
  guard(recv.data() + recv.size(), Guard::after_recv);
  communicator_.fill(recv.data(), poison(rank_case), 0, recv.size() / element_bytes);
  const auto pieces = rank_case.collective.to_send(rank_case.shape, element_bytes, communicator_.rank(), communicator_.size(),
                                                   rank_case.root);
  for (const Piece& piece : pieces)
    communicator_.fill(buffers_.send_data(placement) + piece.offset * element_bytes, stream_of(rank_case, piece), piece.first,
                       piece.count);
  communicator_.synchronize();
}

RankFindings Checker::verify(const RankCase& rank_case, Placement placement) {
  const std::size_t element_bytes = size_bytes(rank_case.dtype);
  RankFindings findings;
  Mismatches mismatches;
  const auto pieces = rank_case.collective.expected(rank_case.shape, element_bytes, communicator_.rank(), communicator_.size(),
                                                    rank_case.root);
  for (const Piece& piece : pieces) {
    if (piece.source == Piece::Source::untouched) {
      compare_untouched(rank_case, placement, piece, mismatches);
      continue;
    }
    const Tolerance& tolerance = piece.source == Piece::Source::reduced ? values_.tolerance() : exactly();
    communicator_.compare(buffers_.recv_data(placement) + piece.offset * element_bytes, stream_of(rank_case, piece), piece.first,
                          piece.count, piece.offset, rank_case.dtype, tolerance, mismatches);
  }
  keep(mismatches, rank_case.dtype, "receive buffer", findings);
  const auto recv = buffers_.recv_region(placement);
  const auto send = buffers_.send_region();
  compare_guard(send.data() - kGuardBytes, guard_seed(rank_case, Guard::before_send), "guard before the send buffer", findings);
  compare_guard(send.data() + send.size(), guard_seed(rank_case, Guard::after_send), "guard after the send buffer", findings);
  compare_guard(recv.data() - kGuardBytes, guard_seed(rank_case, Guard::before_recv), "guard before the receive buffer", findings);
  compare_guard(recv.data() + recv.size(), guard_seed(rank_case, Guard::after_recv), "guard after the receive buffer", findings);
  return findings;
}

void Checker::compare_untouched(const RankCase& rank_case, Placement placement, const Piece& piece, Mismatches& mismatches) {
  const std::size_t element_bytes = size_bytes(rank_case.dtype);
  std::byte* const result = buffers_.recv_data(placement);
  // Element numbers in the receive region: the result's first, and in place the rank's own data, which must still stand.
  const std::size_t origin = (result - buffers_.recv_region(placement).data()) / element_bytes;
  const auto compare = [&](std::size_t from, std::size_t to, const Stream& stream, std::uint64_t first) {
    communicator_.compare(result + from * element_bytes, stream, first, to - from, from, rank_case.dtype, exactly(), mismatches);
  };
  std::size_t done = piece.offset;
  const std::size_t end = piece.offset + piece.count;
  if (placement == Placement::in_place) {
    const std::size_t own_origin = (buffers_.send_data(placement) - buffers_.recv_region(placement).data()) / element_bytes;
    const auto own = rank_case.collective.to_send(rank_case.shape, element_bytes, communicator_.rank(), communicator_.size(),
                                                  rank_case.root);
    for (const Piece& sent : own) {
      const std::size_t start = own_origin + sent.offset - origin;
      const std::size_t from = std::clamp(start, done, end);
      const std::size_t to = std::clamp(start + sent.count, done, end);
      compare(done, from, poison(rank_case), origin + done);
      compare(from, to, stream_of(rank_case, sent), sent.first + (from - start));
      done = to;
    }
  }
  compare(done, end, poison(rank_case), origin + done);
}

void Checker::compare_guard(std::byte* at, std::uint64_t seed, const std::string& place, RankFindings& findings) {
  Mismatches mismatches;
  communicator_.compare(at, guard_stream(seed), 0, kGuardBytes, 0, Dtype::uint8, exactly(), mismatches);
  keep(mismatches, Dtype::uint8, place + ", byte", findings);
}

void Checker::keep(const Mismatches& mismatches, Dtype dtype, const std::string& place, RankFindings& findings) {
  findings.wrong_elements += mismatches.count;
  for (const Mismatch& mismatch : mismatches.first) {
    if (findings.first.size() >= Mismatches::kKept) return;
    findings.first.push_back({.rank = world_rank_,
                              .place = place,
                              .index = static_cast<std::int64_t>(mismatch.index),
                              .expected = element_text(dtype, mismatch.expected.data()),
                              .got = element_text(dtype, mismatch.got.data())});
  }
}

}  // namespace busbw
