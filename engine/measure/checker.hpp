#pragma once
// Checks one placement of a case on one rank: fills the buffers before one operation and compares them after it.
//
// - Expected data: a data stream (verify/data_stream.hpp). ReductionValues makes the stream of reduced data, and
//   FloatReduction or IntegerReduction (verify/) computes each element.
// - Comparison: Communicator::compare, which calls compare_host (verify/host_data.hpp) for ranks in host memory. For
//   GPUs it first calls launch_compare (backends/nccl/kernels/device_data.cu), and compare_host only if data differs.
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/collective.hpp"
#include "measure/buffers.hpp"
#include "values/run_result.hpp"
#include "verify/reduction_values.hpp"

namespace busbw {

/// Wrong elements that a rank found.
struct RankCheckResult {
  std::uint64_t wrong_elements = 0;
  std::vector<WrongElement> first_wrong;  // the first wrong elements, at most Mismatches::kKept

  /// For messages between ranks, see HasMembers.
  static auto members(auto& self) { return std::tie(self.wrong_elements, self.first_wrong); }
};

/// A case on one rank.
struct RankCase {
  const Collective& collective;
  Shape shape;
  Dtype dtype;
  Redop redop;
  int root;
  std::uint64_t seed;  // new for each check, so that stale data counts as wrong

  RankPosition position_in(const Communicator& communicator) const {
    return {
        .element_bytes = size_bytes(dtype), .rank = communicator.rank(), .ranks = communicator.size(), .root = root};
  }
};

/// Checker of one rank. Call prepare(), the operation, verify_result() and verify_untouched() in this order.
class Checker {
 public:
  /// `world_rank`: number of this rank in the job, which wrong elements state. All other arguments must outlive the
  /// checker.
  Checker(Communicator& communicator, const CaseBuffers& buffers, ReductionValues& values, int world_rank)
      : communicator_(communicator), buffers_(buffers), values_(values), world_rank_(world_rank) {}

  /// Fills the guards and the send data. Fills the rest of the receive region with poison: random data that a result
  /// equals only by chance.
  void prepare(const RankCase& rank_case, Placement placement);
  /// Compares the result. Call it immediately after the operation, as a user would read the result. If this rank waited
  /// for other ranks first, a part of the result that arrives too late would stay unnoticed.
  RankCheckResult verify_result(const RankCase& rank_case, Placement placement);
  /// Compares the guards and all data that must stay unchanged. Call it after all ranks are done, because any of them
  /// may write there by mistake.
  void verify_untouched(const RankCase& rank_case, Placement placement, RankCheckResult& check_result);

 private:
  Segments send_segments(const RankCase& rank_case) const {
    return rank_case.collective.send_segments(rank_case.shape, rank_case.position_in(communicator_));
  }
  Segments expected_segments(const RankCase& rank_case) const {
    return rank_case.collective.expected_segments(rank_case.shape, rank_case.position_in(communicator_));
  }
  /// Returns the data stream of the segment's source.
  DataStream stream_of(const RankCase& rank_case, const Segment& segment);
  DataStream poison_stream(const RankCase& rank_case) const;
  /// Position of the result in the receive region, in elements. Above 0 only in place.
  std::size_t result_start(const RankCase& rank_case, Placement placement) const;
  /// Compares elements `from` to `to` of the receive region, which the operation must not change. In place, some of
  /// them are send data. All others are poison.
  void compare_untouched(const RankCase& rank_case, Placement placement, std::size_t from, std::size_t to,
                         Mismatches& mismatches);
  void add_wrong_elements(const Mismatches& mismatches, Dtype dtype, const std::string& buffer,
                          RankCheckResult& check_result);

  Communicator& communicator_;
  const CaseBuffers& buffers_;
  ReductionValues& values_;
  int world_rank_;
};

}  // namespace busbw
