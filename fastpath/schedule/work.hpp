#pragma once
// Works of the schedules `exchange` and `two_shot` (schedule.hpp), one for each collective.
// A `Reduction` has: Cell of(const Cell (&cells)[n], int ranks). It reduces in rank order, so that all ranks get the
// same bits from the same cells.
#include "fastpath/schedule/schedule.hpp"
#include "fastpath/schedule/slices.hpp"

namespace busbw::fastpath {

/// The user's buffers of one operation on one rank.
struct Buffers {
  Slices in;
  Slices out;
  int rank = 0;
  int ranks = 1;
  int root = 0;
  bool own_in_place = false;  ///< this rank's own part is already in the output buffer
};

namespace work {

/// Loads the same cell for every rank.
template <int kMax>
BUSBW_HOST_DEVICE void load_one(const Buffers& b, std::int64_t index, Cell (&cells)[kMax]) {
  const Cell own = load_cell(b.in, 0, index);
  BUSBW_UNROLL
  for (int p = 0; p < kMax; ++p) cells[p] = own;
}

/// Loads a cell of each rank's slice. Has no branch for each slice, so that all loads are in flight at the same time.
template <int kMax>
BUSBW_HOST_DEVICE void load_each(const Buffers& b, std::int64_t index, Cell (&cells)[kMax]) {
  BUSBW_UNROLL
  for (int p = 0; p < kMax; ++p)
    if (p < b.ranks) cells[p] = load_cell(b.in, p, index);
}

/// Returns one of two cells without a branch. A branch on an array index would move the array out of the registers.
BUSBW_HOST_DEVICE Cell select_cell(bool first, const Cell& one, const Cell& other) {
  return {first ? one.low : other.low, first ? one.high : other.high};
}

/// Sets the element of this rank. The rank is no compile-time constant, so the element is selected in an unrolled loop.
template <int kMax>
BUSBW_HOST_DEVICE void set_own(const Buffers& b, const Cell& own, Cell (&cells)[kMax]) {
  BUSBW_UNROLL
  for (int p = 0; p < kMax; ++p) cells[p] = select_cell(p == b.rank, own, cells[p]);
}

/// Stores a cell of each rank's slice.
template <int kMax>
BUSBW_HOST_DEVICE void store_each(const Buffers& b, std::int64_t index, const Cell (&cells)[kMax]) {
  BUSBW_UNROLL
  for (int p = 0; p < kMax; ++p)
    if (p < b.ranks && !(p == b.rank && b.own_in_place)) store_cell(b.out, p, index, cells[p]);
}

/// Stores a cell of each other rank's slice.
template <int kMax>
BUSBW_HOST_DEVICE void store_others(const Buffers& b, std::int64_t index, const Cell (&cells)[kMax]) {
  BUSBW_UNROLL
  for (int p = 0; p < kMax; ++p)
    if (p < b.ranks && p != b.rank) store_cell(b.out, p, index, cells[p]);
}

/// Returns the root's cell. The cells of other ranks only show that their slots are free.
template <int kMax>
BUSBW_HOST_DEVICE Cell from_root(const Buffers& b, const Cell (&cells)[kMax]) {
  Cell cell;
  BUSBW_UNROLL
  for (int p = 0; p < kMax; ++p) cell = select_cell(p == b.root, cells[p], cell);
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
    work::load_one(buffers, index, cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void load_own(std::int64_t index, Cell (&cells)[kMax]) const {
    work::set_own(buffers, load_cell(buffers.in, 0, index), cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void store(std::int64_t index, const Cell (&cells)[kMax]) const {
    store_cell(buffers.out, 0, index, reduction.of(cells, buffers.ranks));
  }
};

/// two_shot: every rank reduces its slice.
template <class Reduction>
struct AllReduceTwoShot {
  Buffers buffers;
  Reduction reduction;

  template <int kMax>
  BUSBW_HOST_DEVICE void load(std::int64_t index, Cell (&cells)[kMax]) const {
    work::load_each(buffers, index, cells);
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
    work::load_each(buffers, index, cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void load_own(std::int64_t index, Cell (&cells)[kMax]) const {
    work::set_own(buffers, load_cell(buffers.in, buffers.rank, index), cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void store(std::int64_t index, const Cell (&cells)[kMax]) const {
    store_cell(buffers.out, 0, index, reduction.of(cells, buffers.ranks));
  }
};

/// exchange: every rank sends its buffer to all ranks.
struct AllGather {
  Buffers buffers;

  template <int kMax>
  BUSBW_HOST_DEVICE void load(std::int64_t index, Cell (&cells)[kMax]) const {
    work::load_one(buffers, index, cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void load_own(std::int64_t index, Cell (&cells)[kMax]) const {
    if (!buffers.own_in_place) work::set_own(buffers, load_cell(buffers.in, 0, index), cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void store(std::int64_t index, const Cell (&cells)[kMax]) const {
    work::store_each(buffers, index, cells);
  }
};

/// exchange: every rank sends a slice to each rank and receives a slice from each rank.
struct AllToAll {
  Buffers buffers;

  template <int kMax>
  BUSBW_HOST_DEVICE void load(std::int64_t index, Cell (&cells)[kMax]) const {
    work::load_each(buffers, index, cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void load_own(std::int64_t index, Cell (&cells)[kMax]) const {
    if (!buffers.own_in_place) work::set_own(buffers, load_cell(buffers.in, buffers.rank, index), cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void store(std::int64_t index, const Cell (&cells)[kMax]) const {
    work::store_each(buffers, index, cells);
  }
};

/// exchange: the root sends its buffer to all ranks.
struct BroadcastOneShot {
  Buffers buffers;

  template <int kMax>
  BUSBW_HOST_DEVICE void load(std::int64_t index, Cell (&cells)[kMax]) const {
    if (buffers.rank == buffers.root) work::load_one(buffers, index, cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void load_own(std::int64_t index, Cell (&cells)[kMax]) const {
    if (buffers.rank == buffers.root && !buffers.own_in_place)
      work::set_own(buffers, load_cell(buffers.in, 0, index), cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void store(std::int64_t index, const Cell (&cells)[kMax]) const {
    if (!buffers.own_in_place) store_cell(buffers.out, 0, index, work::from_root(buffers, cells));
  }
};

/// two_shot: the root scatters slices, and each rank sends its slice to all ranks.
struct BroadcastTwoShot {
  Buffers buffers;

  template <int kMax>
  BUSBW_HOST_DEVICE void load(std::int64_t index, Cell (&cells)[kMax]) const {
    if (buffers.rank == buffers.root) work::load_each(buffers, index, cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void load_own(std::int64_t index, Cell (&cells)[kMax]) const {
    if (buffers.rank == buffers.root) work::set_own(buffers, load_cell(buffers.in, buffers.rank, index), cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE Cell reduce(const Cell (&cells)[kMax]) const {
    return work::from_root(buffers, cells);
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
