#pragma once
// Distribution of the roots (unique ids) of a communicator over its ranks, as NCCL's user guide recommends.
#include <algorithm>

namespace busbw {

/// Ranks up to which a communicator has one root.
inline constexpr int kMaxRanksWithOneRoot = 1024;
/// Ranks for each root of a larger communicator. Up to this number, NCCL does not delay the ranks that contact a root
/// (the default of NCCL_UID_STAGGER_THRESHOLD).
inline constexpr int kRanksPerRoot = 256;

/// Number of roots for `ranks` ranks if the user sets none. `has_several`: the library accepts several roots.
constexpr int default_roots(int ranks, bool has_several) {
  if (!has_several || ranks <= kMaxRanksWithOneRoot) return 1;
  return (ranks + kRanksPerRoot - 1) / kRanksPerRoot;
}

/// True if `rank` makes a unique id. NCCL assigns each rank to a root: the first ranks % roots roots have one rank
/// more.
constexpr bool has_root(int rank, int ranks, int roots) {
  const int small = ranks / roots;
  const int larger_roots = ranks % roots;
  const int end_of_larger = larger_roots * (small + 1);
  return rank < end_of_larger ? rank % (small + 1) == 0 : (rank - end_of_larger) % small == 0;
}

}  // namespace busbw
