// Every rank may send a different amount to every rank, given by a matrix file or a formula. The formula blends an even
// split with a split in proportion to the distance between rank numbers.
#include <fmt/format.h>

#include <algorithm>

#include "collectives/registry.hpp"

namespace busbw {
namespace {

class Alltoallv final : public Collective {
 public:
  explicit Alltoallv(AlltoallvSettings settings) : Collective(facts::alltoallv), settings_(std::move(settings)) {}

  bool in_place_defined() const override { return false; }
  std::string rank_count_error(int ranks) const override {
    if (!from_matrix()) return {};
    if (ranks > settings_.matrix.ranks)
      return fmt::format("NCCL_TESTS_ALLTOALLV_MATRIX_FILE: the matrix is for {} ranks, the run has {}",
                         settings_.matrix.ranks, ranks);
    const Shape byte_shape = shape(0, /*element_bytes=*/1, ranks);  // counts in bytes
    const std::size_t max_bytes = std::max(byte_shape.send_count, byte_shape.recv_count);
    if (max_bytes <= settings_.max_bytes) return {};
    return fmt::format(
        "NCCL_TESTS_ALLTOALLV_MATRIX_FILE: the matrix moves up to {} bytes per rank, -e allows {}; raise -b and -e",
        max_bytes, settings_.max_bytes);
  }

  Shape shape(std::size_t count, std::size_t element_bytes, int ranks) const override {
    Shape shape{.param_count = from_matrix() ? 0 : share_of(count, element_bytes, ranks)};
    // The generated pattern is the same for every rank up to rotation, so rank 0 represents all ranks.
    const int ranks_to_check = from_matrix() ? ranks : 1;
    for (int rank = 0; rank < ranks_to_check; ++rank) {
      shape.send_count = std::max(shape.send_count, sent_before(shape, element_bytes, rank, ranks, ranks));
      shape.recv_count = std::max(shape.recv_count, received_before(shape, element_bytes, rank, ranks, ranks));
    }
    return shape;
  }
  Segments send_segments(const Shape& shape, std::size_t element_bytes, int rank, int ranks,
                         int /*root*/) const override {
    return {{.count = sent_before(shape, element_bytes, rank, ranks, ranks), .source_rank = rank}};
  }
  Segments expected_segments(const Shape& shape, std::size_t element_bytes, int rank, int ranks,
                             int /*root*/) const override {
    Segments segments;
    std::size_t offset = 0;
    for (int source = 0; source < ranks; ++source) {
      const std::size_t count = elements_sent(shape, element_bytes, source, rank, ranks);
      segments.push_back({.offset = offset,
                          .count = count,
                          .source_rank = source,
                          .first = sent_before(shape, element_bytes, source, rank, ranks)});
      offset += count;
    }
    segments.push_back({.offset = offset, .count = shape.recv_count - offset, .source = Segment::Source::untouched});
    return segments;
  }
  int calls_per_run(int ranks) const override { return all_peers_call_weight(ranks); }
  void run(Communicator& communicator, const CollectiveCall& call) const override {
    const int ranks = communicator.size();
    const std::size_t element_bytes = size_bytes(call.dtype);
    const Shape shape{.param_count = call.count};
    std::vector<Transfer> sends, recvs;
    sends.reserve(ranks);
    recvs.reserve(ranks);
    // The data is only read; Transfer has one pointer type for both directions.
    auto* send = const_cast<std::byte*>(call.send);
    std::byte* recv = call.recv;
    for (int peer = 0; peer < ranks; ++peer) {
      const std::size_t sent_count = elements_sent(shape, element_bytes, communicator.rank(), peer, ranks);
      const std::size_t received_count = elements_sent(shape, element_bytes, peer, communicator.rank(), ranks);
      if (sent_count > 0) sends.push_back({peer, send, sent_count});
      if (received_count > 0) recvs.push_back({peer, recv, received_count});
      send += sent_count * element_bytes;
      recv += received_count * element_bytes;
    }
    communicator.exchange(sends, recvs, call.dtype);
  }
  std::optional<RankSummary> rank_summary(const Shape& shape, std::size_t element_bytes, int ranks) const override {
    if (!settings_.print_summary) return std::nullopt;
    RankSummary summary;
    summary.title = from_matrix() ? fmt::format("mode=matrix nranks={} matrix_dim={} scale={:.3f}", ranks,
                                                settings_.matrix.ranks, settings_.matrix_scale)
                                  : fmt::format("mode=generated nranks={} total_bytes={} spread={:.3f}", ranks,
                                                shape.param_count * ranks * element_bytes, settings_.spread);
    for (int rank = 0; rank < ranks; ++rank)
      summary.ranks.push_back({sent_before(shape, element_bytes, rank, ranks, ranks) * element_bytes,
                               received_before(shape, element_bytes, rank, ranks, ranks) * element_bytes});
    return summary;
  }

 private:
  bool from_matrix() const { return settings_.matrix.ranks > 0; }

  /// Number of elements that rank `from` sends to rank `to`, from the matrix or nccl-tests' formula.
  std::size_t elements_sent(const Shape& shape, std::size_t element_bytes, int from, int to, int ranks) const {
    const std::uint64_t bytes = from_matrix()
                                    ? settings_.matrix.sent_bytes(from, to)
                                    : generated_bytes(shape.param_count * ranks * element_bytes, from, to, ranks);
    return bytes / element_bytes;
  }
  /// nccl-tests' formula: a blend of an even split and a split in proportion to the distance (to - from) mod ranks. The
  /// order of floating-point operations and the rounding down to 16 bytes are those of nccl-tests.
  std::uint64_t generated_bytes(std::uint64_t total_bytes, int from, int to, int ranks) const {
    constexpr std::uint64_t kAlignBytes = 16;
    if (ranks == 1) return total_bytes / kAlignBytes * kAlignBytes;
    const int distance = (to - from + ranks) % ranks;
    const auto total = static_cast<double>(total_bytes);
    const auto sum_of_distances = static_cast<double>(static_cast<std::size_t>(ranks) * (ranks - 1) / 2);
    const double even = total / static_cast<double>(ranks);
    const double by_distance = static_cast<double>(distance) * total / sum_of_distances;
    const double bytes = (1.0 - settings_.spread) * even + settings_.spread * by_distance;
    return static_cast<std::uint64_t>(bytes) / kAlignBytes * kAlignBytes;
  }
  /// Elements that `rank` sends to the ranks before `end`.
  std::size_t sent_before(const Shape& shape, std::size_t element_bytes, int rank, int end, int ranks) const {
    std::size_t sum = 0;
    for (int peer = 0; peer < end; ++peer) sum += elements_sent(shape, element_bytes, rank, peer, ranks);
    return sum;
  }
  /// Elements that `rank` receives from the ranks before `end`.
  std::size_t received_before(const Shape& shape, std::size_t element_bytes, int rank, int end, int ranks) const {
    std::size_t sum = 0;
    for (int peer = 0; peer < end; ++peer) sum += elements_sent(shape, element_bytes, peer, rank, ranks);
    return sum;
  }

  AlltoallvSettings settings_;
};

}  // namespace

std::unique_ptr<Collective> make_alltoallv(const CollectiveSettings& settings) {
  return std::make_unique<Alltoallv>(settings.alltoallv);
}

}  // namespace busbw
