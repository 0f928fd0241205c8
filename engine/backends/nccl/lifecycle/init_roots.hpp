#pragma once
// Distribution of the roots (unique ids) of a communicator over its ranks, as NCCL's user guide recommends.
namespace busbw {

/// Maximum number of ranks of a root if the user sets no number of roots. If a root has more ranks, NCCL delays them
/// (the default of NCCL_UID_STAGGER_THRESHOLD). Fewer ranks per root would save at most 8 ms
/// (bench/results/communicator-roots.md).
inline constexpr int kMaxRanksPerRoot = 256;

/// Number of roots for `ranks` ranks if the user sets none. `has_several`: the library accepts several roots.
constexpr int default_roots(int ranks, bool has_several) {
  return has_several ? (ranks + kMaxRanksPerRoot - 1) / kMaxRanksPerRoot : 1;
}

/// True if `rank` makes a unique id, as the first rank of a root. NCCL assigns consecutive ranks to each root. The
/// first `ranks % roots` roots have one rank more than the others: with 11 ranks and 3 roots, ranks 0, 4 and 8 do.
constexpr bool is_first_of_root(int rank, int ranks, int roots) {
  const int small_size = ranks / roots;
  const int large_size = small_size + 1;
  const int large_end = ranks % roots * large_size;  // the ranks of large roots end before this one
  return rank < large_end ? rank % large_size == 0 : (rank - large_end) % small_size == 0;
}

}  // namespace busbw
