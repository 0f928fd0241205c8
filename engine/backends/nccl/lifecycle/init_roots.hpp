#pragma once
// Distribution of the roots (unique ids) of a communicator over its ranks, as NCCL's user guide recommends.
namespace busbw {

/// Most ranks of a root if the user sets no number of roots. NCCL delays the ranks of a root that has more (the default
/// of NCCL_UID_STAGGER_THRESHOLD), and fewer ranks save at most 8 ms (bench/results/communicator-roots.md).
inline constexpr int kRanksPerRoot = 256;

/// Number of roots for `ranks` ranks if the user sets none. `has_several`: the library accepts several roots.
constexpr int default_roots(int ranks, bool has_several) {
  return has_several ? (ranks + kRanksPerRoot - 1) / kRanksPerRoot : 1;
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
