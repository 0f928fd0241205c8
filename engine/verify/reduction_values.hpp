#pragma once
// The data of a run: for every type, operator and number of ranks, what each rank contributes and what the reduction
// must give. Proofs in docs/checking.md.
#include <cstdint>
#include <map>
#include <string>

#include "common/values/types.hpp"
#include "verify/data_stream.hpp"

namespace busbw {

/// The scalar by which `mulsum` multiplies the data of `rank` (its rank in the communicator): 1 for even ranks and 2
/// for odd ones, as in nccl-tests.
double mulsum_scalar(int rank);

/// Ranks up to which the values of a reduction are made, and proven.
inline constexpr int kMaxReducingRanks = 65536;

/// Values for one reduction: (type, operator, ranks). Tiles are made when first asked for, which takes about a
/// millisecond each, and kept; therefore an object belongs to one thread.
class ReductionValues {
 public:
  /// Throws UsageError where `ranks` is not in 1 .. kMaxReducingRanks.
  ReductionValues(Dtype dtype, Redop redop, int ranks);
  /// What `rank` contributes. The same seed must be used for all ranks and for `reduced`.
  DataStream contribution(int rank, std::uint64_t seed) const;
  /// What the reduction over all ranks gives.
  DataStream reduced(std::uint64_t seed) const;
  /// "exact", or a sentence on what exact data cannot show for this type and these ranks.
  const std::string& policy() const { return policy_; }

 private:
  Dtype dtype_;
  Redop redop_;
  int ranks_;
  std::string policy_;
  mutable std::map<int, Tile> contributions_;  // by rank
  mutable Tile reduced_;
};

/// Data that is only moved: any bit pattern that is an ordinary number of the type; a stream per source rank.
DataStream moved_stream(Dtype dtype, int source_rank, std::uint64_t seed);

/// Bytes that stand where nothing may be written.
DataStream guard_stream(std::uint64_t seed);

/// The value and the bits of one element: "3 (0x40400000)".
std::string element_text(Dtype dtype, const std::byte* element);

}  // namespace busbw
