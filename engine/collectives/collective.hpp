#pragma once
// ADD A COLLECTIVE HERE: one file says its shape, its data, its traffic and its call; one line in all.cpp names it.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "common/values/types.hpp"

namespace busbw {

/// Counts and in-place offsets in elements, as nccl-tests' getCollByteCount gives them for one size.
struct Shape {
  std::size_t send_count = 0;           // elements a rank sends (the largest over ranks)
  std::size_t recv_count = 0;           // elements a rank receives (the largest over ranks)
  std::size_t param_count = 0;          // the count passed to the call, and the count column
  std::size_t send_inplace_offset = 0;  // times rank: where the data to send lies in the receive buffer, in place
  std::size_t recv_inplace_offset = 0;  // times rank: where the result lies in the receive buffer, in place
};

/// Bytes that algbw counts, and the factor from algbw to busbw (docs/measuring.md derives each).
struct Traffic {
  double algbw_bytes = 0;
  double bus_factor = 1;
};

/// A run of elements in a rank's buffer and what belongs there.
struct Segment {
  enum class Source {
    contribution,  // what rank `source_rank` puts into a reduction
    reduced,       // what the reduction over all ranks gives
    moved,         // data of rank `source_rank` that is only moved
    untouched,     // what stood there before
  };
  std::size_t offset = 0;  // elements from the start of the rank's data (to send, or received)
  std::size_t count = 0;   // elements
  Source source = Source::moved;
  int source_rank = 0;
  std::uint64_t first = 0;  // position in the source's stream
};
using Segments = std::vector<Segment>;

/// Where and what one rank calls.
struct CollectiveCall {
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  std::size_t count = 0;  // Shape::param_count
  Dtype dtype = Dtype::float32;
  Redop redop = Redop::sum;
  int root = 0;
};

/// Bytes that each rank sends and receives, for collectives where ranks differ.
struct RankSummary {
  struct RankBytes {
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
  };
  std::string title;
  std::vector<RankBytes> ranks;
  double bus_factor = 1;
};

/// One collective operation: pure descriptions, and the call.
class Collective {
 public:
  virtual ~Collective() = default;
  virtual std::string_view name() const = 0;  // "all_reduce"; the program is name() + "_perf"
  /// Whether -o matters, and whether rows name the operator. sendrecv loops over operators that it does not use.
  virtual bool reduces() const { return false; }
  virtual bool loops_over_redops() const { return reduces(); }
  /// Text of the redop column where none is used.
  virtual std::string_view no_redop_name() const { return "none"; }
  virtual bool has_root() const { return false; }
  /// Whether every rank waits for all others, so that a late one holds up all and waiting tells who it was.
  virtual bool synchronizes_all_ranks() const { return !has_root(); }
  /// Whether a result in place is defined; if not, nccl-tests prints N/A as #wrong.
  virtual bool in_place_defined() const { return true; }
  /// Empty, or why this number of ranks cannot run ("nRanks 3 is not a power of 2, skipping").
  virtual std::string rank_count_error(int /*ranks*/) const { return {}; }

  /// `count`: requested bytes / element size.
  virtual Shape shape(std::size_t count, std::size_t element_bytes, int ranks) const = 0;
  virtual Traffic traffic(const Shape& shape, std::size_t element_bytes, int ranks) const = 0;
  /// What `rank` puts into the data it sends; empty when it sends nothing.
  virtual Segments send_segments(const Shape& shape, std::size_t element_bytes, int rank, int ranks, int root) const = 0;
  /// What `rank` must hold afterwards, covering the elements 0 .. recv_count of its result.
  virtual Segments expected_segments(const Shape& shape, std::size_t element_bytes, int rank, int ranks, int root) const = 0;
  virtual void run(Communicator& communicator, const CollectiveCall& call) const = 0;
  /// With how many others a rank exchanges messages, at most, where nccl-tests tells NCCL so.
  virtual std::optional<int> max_peers() const { return std::nullopt; }
  /// How many operations one `run` performs one after the other; times are per operation (2 for a ping-pong).
  virtual int operations_per_run() const { return 1; }
  /// How many calls of the communicator one `run` makes, at most; one that addresses every rank counts as
  /// `calls_to_all`.
  virtual int calls_per_run(int /*ranks*/) const { return 1; }
  /// What a table after each row shows about every rank, where the collective has one and the user asked for it.
  virtual std::optional<RankSummary> rank_summary(const Shape&, std::size_t /*element_bytes*/, int /*ranks*/) const {
    return std::nullopt;
  }
};

/// (n - 1) / n: the part of its data that a rank sends to others when each rank keeps its own share.
constexpr double others_share(int ranks) { return static_cast<double>(ranks - 1) / static_cast<double>(ranks); }

/// For how many calls one counts that sends something else to every rank, or takes something else from each. NCCL's
/// ring of work holds a MiB (NCCL_WORK_FIFO_BYTES of 2.22 to 2.30), of which each peer takes 48 bytes (ncclDevWorkP2p):
/// where it is full, the next call waits for the GPU. Counted so, those that a gate takes over a network fill at most
/// five eighths.
constexpr int calls_to_all(int ranks) { return 1 + ranks / 2048; }

/// nccl-tests' rounding of a rank's share of `count`: whole multiples of 16 bytes.
constexpr std::size_t share_of(std::size_t count, std::size_t element_bytes, int ranks) {
  return (count / static_cast<std::size_t>(ranks)) & ~(16 / element_bytes - 1);
}

}  // namespace busbw
