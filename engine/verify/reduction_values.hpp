#pragma once
// Input data and expected results, of reductions and of collectives that only move data. Every type, operator and
// number of ranks has data. docs/explanation/correctness.md proves that each result is unique, in any order of
// reduction.
#include <cstdint>
#include <map>
#include <string>

#include "common/values/types.hpp"
#include "verify/data_stream.hpp"

namespace busbw {

/// Scalar by which `mulsum` multiplies the data of `rank` (rank in the communicator). 1 for even ranks and 2 for odd
/// ones, as in nccl-tests.
double mulsum_scalar(int rank);

/// Maximum number of ranks for which reduction values exist and are proven.
inline constexpr int kMaxReducingRanks = 65536;

/// Values for one reduction: (type, operator, ranks). Each stream has a tile, a table of values (data_stream.hpp). The
/// first request for a stream makes its tile in about a millisecond, and caches it. The cache has no lock, so an object
/// belongs to one thread.
class ReductionValues {
 public:
  /// Throws UsageError if `ranks` is not in 1 .. kMaxReducingRanks.
  ReductionValues(Dtype dtype, Redop redop, int ranks);
  /// Stream of `rank`'s input. Use the same seed for all ranks and for `reduced`: then the elements at one position of
  /// all streams come from the same position of their tiles.
  DataStream contribution(int rank, std::uint64_t seed) const;
  /// Stream of the expected result of the reduction over all ranks.
  DataStream reduced(std::uint64_t seed) const;
  /// Exactness of a check with these values: "exact", or a sentence on errors that the data cannot show.
  const std::string& exactness() const { return exactness_; }

 private:
  Dtype dtype_;
  Redop redop_;
  int ranks_;
  std::string exactness_;
  mutable std::map<int, Tile> contributions_;  // by rank; cache of `contribution`
  mutable Tile reduced_;                       // cache of `reduced`
};

/// Stream of data that a collective only moves: any finite numbers of the type, with a different stream per source
/// rank.
DataStream moved_stream(Dtype dtype, int source_rank, std::uint64_t seed);

/// Stream for the guards: memory around the buffers' regions in which a collective must write nothing.
DataStream guard_stream(std::uint64_t seed);

/// Value and bits of one element: "3 (0x40400000)".
std::string element_text(Dtype dtype, const std::byte* element);

}  // namespace busbw
