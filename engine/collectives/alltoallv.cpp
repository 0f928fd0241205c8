// alltoallv: every rank may send a different amount to every rank, as a TrafficPattern describes. Each of the patterns
// has an overload of elements_sent and param_count below:
//   DistanceSpread: the amount depends on the distance between both ranks, as in nccl-tests
//   ByteMatrix: bytes of each pair of ranks, from NCCL_TESTS_ALLTOALLV_MATRIX_FILE
//   CountMatrix: elements of each pair of ranks, from --skew file:PATH
//   ReceiverShares: every rank sends the same share to a receiver, from --skew zipf:S or hot:K
#include <fmt/format.h>

#include <algorithm>

#include "collectives/receiver_shares.hpp"
#include "collectives/registry.hpp"

namespace busbw {
namespace {

/// A call of alltoallv on `ranks` ranks.
struct PatternCall {
  /// Shape::param_count, the count in the row. DistanceSpread: mean number of elements from a rank to one rank.
  /// ReceiverShares: number of elements from a rank to all ranks. Matrices: 0.
  std::size_t count;
  std::size_t element_bytes;
  int ranks;
};

/// Number of elements that rank `from` sends to rank `to`. nccl-tests' formula: the weighted mean of an even split and
/// a split in proportion to the distance (to - from) mod ranks. The order of floating-point operations and the rounding
/// down to 16 bytes are those of nccl-tests.
std::size_t elements_sent(const DistanceSpread& pattern, const PatternCall& call, int from, int to) {
  constexpr std::uint64_t kAlignBytes = 16;
  const auto to_elements = [&](std::uint64_t bytes) { return bytes / kAlignBytes * kAlignBytes / call.element_bytes; };
  const int ranks = call.ranks;
  const std::uint64_t total_bytes = call.count * ranks * call.element_bytes;
  if (ranks == 1) return to_elements(total_bytes);
  const int distance = (to - from + ranks) % ranks;
  const auto total = static_cast<double>(total_bytes);
  const auto sum_of_distances = static_cast<double>(static_cast<std::size_t>(ranks) * (ranks - 1) / 2);
  const double even = total / static_cast<double>(ranks);
  const double by_distance = static_cast<double>(distance) * total / sum_of_distances;
  const double bytes = (1.0 - pattern.spread) * even + pattern.spread * by_distance;
  return to_elements(static_cast<std::uint64_t>(bytes));
}

std::size_t elements_sent(const ByteMatrix& pattern, const PatternCall& call, int from, int to) {
  return pattern.bytes.cell(from, to) / call.element_bytes;
}

std::size_t elements_sent(const CountMatrix& pattern, const PatternCall& /*call*/, int from, int to) {
  return pattern.elements.cell(from, to);
}

std::size_t elements_sent(const ReceiverShares& pattern, const PatternCall& call, int /*from*/, int to) {
  return elements_of_receiver(pattern, call.count, call.element_bytes, to);
}

/// Returns Shape::param_count. `sweep_count`: elements of the row's size. A matrix determines all counts, so it has 0.
std::size_t param_count(const DistanceSpread&, std::size_t sweep_count, std::size_t element_bytes, int ranks) {
  return share_of(sweep_count, element_bytes, ranks);
}

std::size_t param_count(const ByteMatrix&, std::size_t, std::size_t, int) { return 0; }
std::size_t param_count(const CountMatrix&, std::size_t, std::size_t, int) { return 0; }
std::size_t param_count(const ReceiverShares&, std::size_t sweep_count, std::size_t, int) { return sweep_count; }

class Alltoallv final : public Collective {
 public:
  explicit Alltoallv(AlltoallvSettings settings) : Collective(facts::alltoallv), settings_(std::move(settings)) {}

  bool in_place_defined() const override { return false; }
  std::string rank_count_error(int ranks) const override {
    const auto* const shares = std::get_if<ReceiverShares>(&settings_.pattern);
    if (shares && std::ssize(shares->ends) != ranks)
      return fmt::format("--skew: the shares are for {} ranks, a group has {}", shares->ends.size(), ranks);
    const auto* const counts = std::get_if<CountMatrix>(&settings_.pattern);
    if (counts && counts->elements.ranks != ranks)
      return fmt::format("--skew: the file is for {} ranks, the run has {}", counts->elements.ranks, ranks);
    if (const auto* matrix = std::get_if<ByteMatrix>(&settings_.pattern)) return matrix_error(*matrix, ranks);
    return {};
  }

  Shape shape(std::size_t count, std::size_t element_bytes, int ranks) const override {
    Shape shape;
    shape.param_count = std::visit(
        [&](const auto& pattern) { return param_count(pattern, count, element_bytes, ranks); }, settings_.pattern);
    const PatternCall call{shape.param_count, element_bytes, ranks};
    // A DistanceSpread depends only on the distance between ranks, so rank 0 sends and receives as much as any rank.
    const int ranks_to_check = std::holds_alternative<DistanceSpread>(settings_.pattern) ? 1 : ranks;
    for (int rank = 0; rank < ranks_to_check; ++rank) {
      shape.send_count = std::max(shape.send_count, total_sent(call, rank));
      shape.recv_count = std::max(shape.recv_count, total_received(call, rank));
    }
    return shape;
  }
  Segments send_segments(const Shape& shape, const RankPosition& position) const override {
    const PatternCall call{shape.param_count, position.element_bytes, position.ranks};
    return {{.count = total_sent(call, position.rank), .source_rank = position.rank}};
  }
  Segments expected_segments(const Shape& shape, const RankPosition& position) const override {
    const PatternCall call{shape.param_count, position.element_bytes, position.ranks};
    Segments segments;
    std::size_t offset = 0;
    for (int source = 0; source < position.ranks; ++source) {
      const std::size_t count = elements_sent(call, source, position.rank);
      // A rank sends its elements in the order of the receivers.
      const std::size_t first = sent_before(call, source, position.rank);
      segments.push_back({.offset = offset, .count = count, .source_rank = source, .first = first});
      offset += count;
    }
    segments.push_back({.offset = offset, .count = shape.recv_count - offset, .source = Segment::Source::untouched});
    return segments;
  }
  int weighted_calls_per_run(int ranks) const override { return all_peers_call_weight(ranks); }
  void run(Communicator& communicator, const CollectiveCall& call) const override {
    const int ranks = communicator.size();
    const std::size_t element_bytes = size_bytes(call.dtype);
    const PatternCall pattern_call{call.count, element_bytes, ranks};
    std::vector<Transfer> sends, recvs;
    sends.reserve(ranks);
    recvs.reserve(ranks);
    const std::byte* send = call.send;
    std::byte* recv = call.recv;
    for (int peer = 0; peer < ranks; ++peer) {
      const std::size_t sent_count = elements_sent(pattern_call, communicator.rank(), peer);
      const std::size_t received_count = elements_sent(pattern_call, peer, communicator.rank());
      if (sent_count > 0) sends.push_back(make_send(peer, send, sent_count));
      if (received_count > 0) recvs.push_back({peer, recv, received_count});
      send += sent_count * element_bytes;
      recv += received_count * element_bytes;
    }
    communicator.exchange(sends, recvs, call.dtype);
  }
  std::optional<RankSummary> rank_summary(const Shape& shape, std::size_t element_bytes, int ranks) const override {
    if (!settings_.print_summary) return std::nullopt;
    RankSummary summary;
    if (const auto* matrix = std::get_if<ByteMatrix>(&settings_.pattern))
      summary.title =
          fmt::format("mode=matrix nranks={} matrix_dim={} scale={:.3f}", ranks, matrix->bytes.ranks, matrix->scale);
    else if (const auto* formula = std::get_if<DistanceSpread>(&settings_.pattern))
      summary.title = fmt::format("mode=generated nranks={} total_bytes={} spread={:.3f}", ranks,
                                  shape.param_count * ranks * element_bytes, formula->spread);
    else
      summary.title = fmt::format("mode=skew nranks={}", ranks);
    const PatternCall call{shape.param_count, element_bytes, ranks};
    for (int rank = 0; rank < ranks; ++rank)
      summary.ranks.push_back({total_sent(call, rank) * element_bytes, total_received(call, rank) * element_bytes});
    return summary;
  }

  std::optional<TrafficBalance> traffic_balance(const Shape& shape, std::size_t element_bytes,
                                                int ranks) const override {
    const PatternCall call{shape.param_count, element_bytes, ranks};
    TrafficBalance balance;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::size_t kept = elements_sent(call, rank, rank);  // the rank's data for itself
      const std::size_t sent = total_sent(call, rank);
      const std::size_t received = total_received(call, rank);
      balance.total_bytes += sent * element_bytes;
      balance.busiest_bytes = std::max(balance.busiest_bytes, (std::max(sent, received) - kept) * element_bytes);
    }
    return balance;
  }

 private:
  std::string matrix_error(const ByteMatrix& matrix, int ranks) const {
    if (ranks > matrix.bytes.ranks)
      return fmt::format("NCCL_TESTS_ALLTOALLV_MATRIX_FILE: the matrix is for {} ranks, the run has {}",
                         matrix.bytes.ranks, ranks);
    const Shape byte_shape = shape(/*count=*/0, /*element_bytes=*/1, ranks);  // a matrix determines all counts
    const std::size_t moved_bytes = std::max(byte_shape.send_count, byte_shape.recv_count);
    if (moved_bytes <= matrix.buffer_bytes) return {};
    return fmt::format(
        "NCCL_TESTS_ALLTOALLV_MATRIX_FILE: the matrix moves up to {} bytes per rank, -e allows {}; raise -b and -e",
        moved_bytes, matrix.buffer_bytes);
  }

  /// Number of elements that rank `from` sends to rank `to`.
  std::size_t elements_sent(const PatternCall& call, int from, int to) const {
    return std::visit([&](const auto& pattern) { return busbw::elements_sent(pattern, call, from, to); },
                      settings_.pattern);
  }
  /// Number of elements that rank `from` sends to the ranks before `to`.
  std::size_t sent_before(const PatternCall& call, int from, int to) const {
    std::size_t sum = 0;
    for (int peer = 0; peer < to; ++peer) sum += elements_sent(call, from, peer);
    return sum;
  }
  std::size_t total_sent(const PatternCall& call, int rank) const { return sent_before(call, rank, call.ranks); }
  std::size_t total_received(const PatternCall& call, int rank) const {
    std::size_t sum = 0;
    for (int peer = 0; peer < call.ranks; ++peer) sum += elements_sent(call, peer, rank);
    return sum;
  }

  AlltoallvSettings settings_;
};

}  // namespace

std::unique_ptr<Collective> make_alltoallv(const CollectiveSettings& settings) {
  return std::make_unique<Alltoallv>(settings.alltoallv);
}

}  // namespace busbw
