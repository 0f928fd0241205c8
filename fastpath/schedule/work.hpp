#pragma once
// Types that each implement the concept Work (schedule.hpp) for one collective and one schedule, `exchange` or
// `two_shot`. schedule.hpp states when each function is called: `load` fills the cells for the peers, `load_own` adds
// this rank's own cell before `store` or `reduce`. kMax is the maximum number of ranks.
//
// A `Reduction` has the function Cell of(const Cell (&cells)[n], int ranks), which returns the reduction of the ranks'
// cells. It reduces in rank order, so that all ranks get the same bits from the same cells.
#include "fastpath/schedule/schedule.hpp"
#include "fastpath/schedule/slices.hpp"

namespace busbw::fastpath {

/// The user's buffers of one operation on one rank.
struct Buffers {
  Slices in;
  Slices out;
  int rank = 0;
  int ranks = 1;
  int root = 0;  ///< used by broadcast
  bool own_in_place = false;  ///< this rank's own part is already in the output buffer
};

namespace work {

/// Number of the slice of a buffer that is not divided.
inline constexpr int kOnlySlice = 0;

/// Loads the same cell for every rank.
template <int kMax>
BUSBW_HOST_DEVICE void load_same_cell(const Buffers& buffers, std::int64_t index, Cell (&cells)[kMax]) {
  const Cell own = load_cell(buffers.in, kOnlySlice, index);
  BUSBW_UNROLL
  for (int rank = 0; rank < kMax; ++rank) cells[rank] = own;
}

/// Loads a cell of each rank's slice. Has no branch for each slice, so that all loads are in flight at the same time.
template <int kMax>
BUSBW_HOST_DEVICE void load_cell_per_rank(const Buffers& buffers, std::int64_t index, Cell (&cells)[kMax]) {
  BUSBW_UNROLL
  for (int rank = 0; rank < kMax; ++rank)
    if (rank < buffers.ranks) cells[rank] = load_cell(buffers.in, rank, index);
}

/// Returns one of two cells without a branch. A branch on an array index would move the array out of the registers.
BUSBW_HOST_DEVICE Cell select_cell(bool condition, const Cell& if_true, const Cell& if_false) {
  return {condition ? if_true.low : if_false.low, condition ? if_true.high : if_false.high};
}

/// Sets cells[rank] for this rank. The rank is no compile-time constant, so the element is selected in an unrolled
/// loop.
template <int kMax>
BUSBW_HOST_DEVICE void set_own(const Buffers& buffers, const Cell& own, Cell (&cells)[kMax]) {
  BUSBW_UNROLL
  for (int rank = 0; rank < kMax; ++rank) cells[rank] = select_cell(rank == buffers.rank, own, cells[rank]);
}

/// Stores a cell of each rank's slice, except of this rank's own slice if that is in place.
template <int kMax>
BUSBW_HOST_DEVICE void store_cell_per_rank(const Buffers& buffers, std::int64_t index, const Cell (&cells)[kMax]) {
  BUSBW_UNROLL
  for (int rank = 0; rank < kMax; ++rank) {
    const bool is_stored_already = rank == buffers.rank && buffers.own_in_place;
    if (rank < buffers.ranks && !is_stored_already) store_cell(buffers.out, rank, index, cells[rank]);
  }
}

/// Stores a cell of each other rank's slice.
template <int kMax>
BUSBW_HOST_DEVICE void store_others(const Buffers& buffers, std::int64_t index, const Cell (&cells)[kMax]) {
  BUSBW_UNROLL
  for (int rank = 0; rank < kMax; ++rank)
    if (rank < buffers.ranks && rank != buffers.rank) store_cell(buffers.out, rank, index, cells[rank]);
}

/// Returns the root's cell. The other ranks send empty cells, because every pair of ranks must exchange cells.
template <int kMax>
BUSBW_HOST_DEVICE Cell cell_from_root(const Buffers& buffers, const Cell (&cells)[kMax]) {
  Cell cell;
  BUSBW_UNROLL
  for (int rank = 0; rank < kMax; ++rank) cell = select_cell(rank == buffers.root, cells[rank], cell);
  return cell;
}

}  // namespace work

/// exchange: every rank receives all buffers and reduces them.
template <class Reduction>
struct AllReduceOneShot {
  Buffers buffers;
  Reduction reduction;

  template <int kMax>
  BUSBW_HOST_DEVICE void load(std::int64_t index, Cell (&cells)[kMax]) const {
    work::load_same_cell(buffers, index, cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void load_own(std::int64_t index, Cell (&cells)[kMax]) const {
    work::set_own(buffers, load_cell(buffers.in, work::kOnlySlice, index), cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void store(std::int64_t index, const Cell (&cells)[kMax]) const {
    store_cell(buffers.out, work::kOnlySlice, index, reduction.of(cells, buffers.ranks));
  }
};

/// two_shot: every rank reduces its slice.
template <class Reduction>
struct AllReduceTwoShot {
  Buffers buffers;
  Reduction reduction;

  template <int kMax>
  BUSBW_HOST_DEVICE void load(std::int64_t index, Cell (&cells)[kMax]) const {
    work::load_cell_per_rank(buffers, index, cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void load_own(std::int64_t index, Cell (&cells)[kMax]) const {
    work::set_own(buffers, load_cell(buffers.in, buffers.rank, index), cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE Cell reduce(const Cell (&cells)[kMax]) const {
    return reduction.of(cells, buffers.ranks);
  }
  BUSBW_HOST_DEVICE void keep(std::int64_t index, const Cell& cell) const {
    store_cell(buffers.out, buffers.rank, index, cell);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void store_others(std::int64_t index, const Cell (&cells)[kMax]) const {
    work::store_others(buffers, index, cells);
  }
};

/// exchange: every rank receives its slice from all ranks and reduces it.
template <class Reduction>
struct ReduceScatter {
  Buffers buffers;
  Reduction reduction;

  template <int kMax>
  BUSBW_HOST_DEVICE void load(std::int64_t index, Cell (&cells)[kMax]) const {
    work::load_cell_per_rank(buffers, index, cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void load_own(std::int64_t index, Cell (&cells)[kMax]) const {
    work::set_own(buffers, load_cell(buffers.in, buffers.rank, index), cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void store(std::int64_t index, const Cell (&cells)[kMax]) const {
    store_cell(buffers.out, work::kOnlySlice, index, reduction.of(cells, buffers.ranks));
  }
};

/// exchange: every rank sends its buffer to all ranks.
struct AllGather {
  Buffers buffers;

  template <int kMax>
  BUSBW_HOST_DEVICE void load(std::int64_t index, Cell (&cells)[kMax]) const {
    work::load_same_cell(buffers, index, cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void load_own(std::int64_t index, Cell (&cells)[kMax]) const {
    if (!buffers.own_in_place) work::set_own(buffers, load_cell(buffers.in, work::kOnlySlice, index), cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void store(std::int64_t index, const Cell (&cells)[kMax]) const {
    work::store_cell_per_rank(buffers, index, cells);
  }
};

/// exchange: every rank sends a slice to each rank and receives a slice from each rank.
struct AllToAll {
  Buffers buffers;

  template <int kMax>
  BUSBW_HOST_DEVICE void load(std::int64_t index, Cell (&cells)[kMax]) const {
    work::load_cell_per_rank(buffers, index, cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void load_own(std::int64_t index, Cell (&cells)[kMax]) const {
    if (!buffers.own_in_place) work::set_own(buffers, load_cell(buffers.in, buffers.rank, index), cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void store(std::int64_t index, const Cell (&cells)[kMax]) const {
    work::store_cell_per_rank(buffers, index, cells);
  }
};

/// exchange: the root sends its buffer to all ranks.
struct BroadcastOneShot {
  Buffers buffers;

  template <int kMax>
  BUSBW_HOST_DEVICE void load(std::int64_t index, Cell (&cells)[kMax]) const {
    if (buffers.rank == buffers.root) work::load_same_cell(buffers, index, cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void load_own(std::int64_t index, Cell (&cells)[kMax]) const {
    if (buffers.rank == buffers.root && !buffers.own_in_place)
      work::set_own(buffers, load_cell(buffers.in, work::kOnlySlice, index), cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void store(std::int64_t index, const Cell (&cells)[kMax]) const {
    if (!buffers.own_in_place) store_cell(buffers.out, work::kOnlySlice, index, work::cell_from_root(buffers, cells));
  }
};

/// two_shot: the root scatters slices, and each rank sends its slice to all ranks. `reduce` selects the root's cell.
struct BroadcastTwoShot {
  Buffers buffers;

  template <int kMax>
  BUSBW_HOST_DEVICE void load(std::int64_t index, Cell (&cells)[kMax]) const {
    if (buffers.rank == buffers.root) work::load_cell_per_rank(buffers, index, cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void load_own(std::int64_t index, Cell (&cells)[kMax]) const {
    if (buffers.rank == buffers.root) work::set_own(buffers, load_cell(buffers.in, buffers.rank, index), cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE Cell reduce(const Cell (&cells)[kMax]) const {
    return work::cell_from_root(buffers, cells);
  }
  BUSBW_HOST_DEVICE void keep(std::int64_t index, const Cell& cell) const {
    if (!buffers.own_in_place) store_cell(buffers.out, buffers.rank, index, cell);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void store_others(std::int64_t index, const Cell (&cells)[kMax]) const {
    if (!buffers.own_in_place) work::store_others(buffers, index, cells);
  }
};

}  // namespace busbw::fastpath
