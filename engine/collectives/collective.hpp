#pragma once
// ADD A COLLECTIVE HERE (steps: CONTRIBUTING.md). The file of each collective implements this interface: expected data
// and call. Counts, sent data and traffic follow from the facts in src/busbw/collectives.toml.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "common/values/collective_facts.hpp"
#include "common/values/types.hpp"

namespace busbw {

/// Counts and in-place offsets in elements, as nccl-tests' getCollByteCount computes them for one size. In place, rank
/// r sends from element r * send_inplace_offset of its receive buffer and gets its result at r * recv_inplace_offset.
struct Shape {
  std::size_t send_count = 0;  // elements that a rank sends (maximum over ranks)
  std::size_t recv_count = 0;  // elements that a rank receives (maximum over ranks)
  std::size_t param_count = 0;  // count argument of the communicator's function, and the count column
  std::size_t send_inplace_offset = 0;
  std::size_t recv_inplace_offset = 0;
};

/// Bytes that algbw is based on, and the factor from algbw to busbw (docs/explanation/measuring.md derives both for
/// each collective).
struct Traffic {
  double algbw_bytes = 0;
  double bus_factor = 1;
};

/// Range of elements in a rank's buffer, and the source of their expected values. Every rank has two endless streams of
/// test data: values to reduce (`contribution`) and values to move (`moved`). The results of a reduction are a stream,
/// too.
struct Segment {
  enum class Source {
    contribution,  // input of rank `source_rank` to a reduction
    reduced,  // result of the reduction over all ranks
    moved,  // data of rank `source_rank`, copied unchanged
    untouched,  // content from before the operation
  };
  std::size_t offset = 0;  // elements from the start of the rank's send data or result
  std::size_t count = 0;   // elements
  Source source = Source::moved;
  int source_rank = 0;
  std::uint64_t first = 0;  // position of the first element in the source's data stream
};
using Segments = std::vector<Segment>;

/// A rank in a call, and the arguments of the call that its segments depend on.
struct RankPosition {
  std::size_t element_bytes;
  int rank;
  int ranks;
  int root;
};

/// Arguments of one operation on one rank.
struct CollectiveCall {
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  std::size_t count = 0;  // Shape::param_count
  Dtype dtype = Dtype::float32;
  Redop redop = Redop::sum;
  int root = 0;
};

/// Bytes of each rank, as NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY prints them after a row.
struct RankSummary {
  struct RankBytes {
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
  };
  std::string title;
  std::vector<RankBytes> ranks;
};

/// Imbalance between the ranks: total bytes of an operation, and bytes of the busiest rank.
struct TrafficBalance {
  std::uint64_t total_bytes = 0;    // sent by all ranks, including the bytes that a rank sends to itself
  std::uint64_t busiest_bytes = 0;  // sent to other ranks, or received from other ranks, by the busiest rank
};

/// Description of one collective, and the function that issues it.
class Collective {
 public:
  explicit Collective(const CollectiveFacts& facts) : facts_(facts) {}
  virtual ~Collective() = default;
  std::string_view name() const { return facts_.name; }  // "all_reduce"; the program is name() + "_perf"
  /// True if the collective applies an operator.
  bool reduces() const { return facts_.reduces; }
  /// True if the sweep has one row per operator of -o. sendrecv has one row per operator without using the operator.
  bool loops_over_redops() const { return facts_.redop != "never"; }
  /// Text of the redop column if the collective uses no operator.
  virtual std::string_view no_redop_name() const { return "none"; }
  bool has_root() const { return facts_.has_root; }
  /// True if no rank can finish before all ranks have started. Ranks then wait for the last one to arrive, so the rank
  /// with the shortest wait is the late one.
  virtual bool synchronizes_all_ranks() const { return !has_root(); }
  /// True if an in-place result is defined. Otherwise nccl-tests prints N/A as #wrong.
  virtual bool in_place_defined() const { return true; }
  /// Error text if the collective cannot run on this number of ranks, else empty: "nRanks 3 is not a power of 2".
  virtual std::string rank_count_error(int /*ranks*/) const { return {}; }

  /// Returns the counts for one size. `count` is the requested bytes divided by the element size.
  virtual Shape shape(std::size_t count, std::size_t element_bytes, int ranks) const;
  /// Returns the counts of a call with this count argument.
  Shape call_shape(std::size_t param_count, int ranks) const;
  /// True if algbw and busbw are defined. Otherwise do not call `traffic`.
  bool has_bandwidth() const { return !facts_.bus_factor.empty(); }
  Traffic traffic(const Shape& shape, std::size_t element_bytes, int ranks) const;
  /// Contents of the data that the rank at `position` sends. Empty if the rank sends nothing.
  virtual Segments send_segments(const Shape& shape, const RankPosition& position) const;
  /// Expected result of the rank at `position`. Covers Shape::recv_count elements. A rank that receives fewer elements
  /// has `untouched` ones at the end.
  virtual Segments expected_segments(const Shape& shape, const RankPosition& position) const = 0;
  /// Issues the operation on this rank.
  virtual void run(Communicator& communicator, const CollectiveCall& call) const = 0;
  /// Maximum number of peers that a rank exchanges messages with, if nccl-tests passes it to NCCL; otherwise nullopt.
  virtual std::optional<int> max_peers() const { return std::nullopt; }
  /// Number of operations that one `run` performs in sequence (2 for a ping-pong). Times are per operation.
  virtual int operations_per_run() const { return 1; }
  /// Maximum weight of one `run`: the sum of the weights of its communicator calls. While a gate holds the GPU's
  /// stream, each call takes space in NCCL's work queue, and its weight measures this space. A call with different data
  /// for every rank, or from every rank, has the weight all_peers_call_weight(ranks), any other call the weight 1.
  /// GateCapacity compares the sum with a gate's capacity.
  virtual int weighted_calls_per_run(int /*ranks*/) const { return 1; }
  /// Bytes of each rank, to print after each row. Nullopt if the collective does not print such a summary or the user
  /// did not request it.
  virtual std::optional<RankSummary> rank_summary(const Shape&, std::size_t /*element_bytes*/, int /*ranks*/) const {
    return std::nullopt;
  }
  /// Imbalance between the ranks. Nullopt if all ranks always send equally much.
  virtual std::optional<TrafficBalance> traffic_balance(const Shape&, std::size_t /*element_bytes*/,
                                                        int /*ranks*/) const {
    return std::nullopt;
  }

 private:
  const CollectiveFacts& facts_;
};

/// Weight of a call that sends different data to every rank, or receives different data from every rank.
///
/// NCCL has a work queue of 1 MiB (NCCL_WORK_FIFO_BYTES in 2.22 to 2.30). If the queue is full, the next call waits for
/// the GPU. The GPU waits for the gate, so the calls behind a closed gate must not fill the queue. A call with
/// different data for every rank takes 48 bytes of the queue per rank (ncclDevWorkP2p).
///
/// Over a network, a gate has a capacity of 8, enough for two timestamps and six calls of weight 1. With fewer than
/// 2,048 ranks, six calls take less than 6 * 48 * 2,048 bytes, which is 9/16 of the queue. With more ranks the weight
/// is higher. Then fewer calls fit behind the gate, and again they take less than 9/16 of the queue.
constexpr int all_peers_call_weight(int ranks) { return 1 + ranks / 2048; }

/// Returns the share of one rank, as nccl-tests computes it: `count` divided by the number of ranks, rounded down to a
/// multiple of 16 bytes.
constexpr std::size_t share_of(std::size_t count, std::size_t element_bytes, int ranks) {
  const std::size_t block_elements = 16 / element_bytes;
  return count / static_cast<std::size_t>(ranks) / block_elements * block_elements;
}

}  // namespace busbw
