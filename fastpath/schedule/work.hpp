#pragma once
// What each collective puts into cells, and what it makes of those it gets: the Works of schedule.hpp.
// `Reduction` has: Cell of(const Cell (&cells)[n], int ranks), in the order of the ranks, so that every rank that
// reduces the same cells comes to the same bits.
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
  bool own_is_there = false;  ///< in place: this rank's own part need not be written
};

namespace work {

/// The same cell for everybody.
template <int kMax>
BUSBW_HOST_DEVICE void load_one(const Buffers& b, std::int64_t index, Cell (&cells)[kMax]) {
  const Cell own = load_cell(b.in, 0, index);
  BUSBW_UNROLL
  for (int p = 0; p < kMax; ++p) cells[p] = own;
}

/// A slice for each. Without a branch for each slice, so that all are on their way before the first is there.
template <int kMax>
BUSBW_HOST_DEVICE void load_each(const Buffers& b, std::int64_t index, Cell (&cells)[kMax]) {
  BUSBW_UNROLL
  for (int p = 0; p < kMax; ++p)
    if (p < b.ranks) cells[p] = load_cell(b.in, p, index);
}

/// One of two, without a branch: a branch on a place in an array would move the array out of the registers.
BUSBW_HOST_DEVICE Cell chosen(bool first, const Cell& one, const Cell& other) {
  return {first ? one.low : other.low, first ? one.high : other.high};
}

/// Into its own rank's place, which is no constant.
template <int kMax>
BUSBW_HOST_DEVICE void set_own(const Buffers& b, const Cell& own, Cell (&cells)[kMax]) {
  BUSBW_UNROLL
  for (int p = 0; p < kMax; ++p) cells[p] = chosen(p == b.rank, own, cells[p]);
}

/// A slice from each.
template <int kMax>
BUSBW_HOST_DEVICE void store_each(const Buffers& b, std::int64_t index, const Cell (&cells)[kMax]) {
  BUSBW_UNROLL
  for (int p = 0; p < kMax; ++p)
    if (p < b.ranks && !(p == b.rank && b.own_is_there)) store_cell(b.out, p, index, cells[p]);
}

/// A slice from each other rank.
template <int kMax>
BUSBW_HOST_DEVICE void store_others(const Buffers& b, std::int64_t index, const Cell (&cells)[kMax]) {
  BUSBW_UNROLL
  for (int p = 0; p < kMax; ++p)
    if (p < b.ranks && p != b.rank) store_cell(b.out, p, index, cells[p]);
}

/// What the root sent; others' cells are there to say that their slots are free.
template <int kMax>
BUSBW_HOST_DEVICE Cell from_root(const Buffers& b, const Cell (&cells)[kMax]) {
  Cell cell;
  BUSBW_UNROLL
  for (int p = 0; p < kMax; ++p) cell = chosen(p == b.root, cells[p], cell);
  return cell;
}

}  // namespace work

/// exchange: everybody gets everything and reduces it.
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

/// two_shot: each reduces its slice.
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

/// exchange: each gets its slice of all and reduces it.
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

/// exchange: everybody's buffer to everybody.
struct AllGather {
  Buffers buffers;

  template <int kMax>
  BUSBW_HOST_DEVICE void load(std::int64_t index, Cell (&cells)[kMax]) const {
    work::load_one(buffers, index, cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void load_own(std::int64_t index, Cell (&cells)[kMax]) const {
    if (!buffers.own_is_there) work::set_own(buffers, load_cell(buffers.in, 0, index), cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void store(std::int64_t index, const Cell (&cells)[kMax]) const {
    work::store_each(buffers, index, cells);
  }
};

/// exchange: a slice for each, a slice from each.
struct AllToAll {
  Buffers buffers;

  template <int kMax>
  BUSBW_HOST_DEVICE void load(std::int64_t index, Cell (&cells)[kMax]) const {
    work::load_each(buffers, index, cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void load_own(std::int64_t index, Cell (&cells)[kMax]) const {
    if (!buffers.own_is_there) work::set_own(buffers, load_cell(buffers.in, buffers.rank, index), cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void store(std::int64_t index, const Cell (&cells)[kMax]) const {
    work::store_each(buffers, index, cells);
  }
};

/// exchange: the root's buffer to everybody.
struct BroadcastOneShot {
  Buffers buffers;

  template <int kMax>
  BUSBW_HOST_DEVICE void load(std::int64_t index, Cell (&cells)[kMax]) const {
    if (buffers.rank == buffers.root) work::load_one(buffers, index, cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void load_own(std::int64_t index, Cell (&cells)[kMax]) const {
    if (buffers.rank == buffers.root && !buffers.own_is_there)
      work::set_own(buffers, load_cell(buffers.in, 0, index), cells);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void store(std::int64_t index, const Cell (&cells)[kMax]) const {
    if (!buffers.own_is_there) store_cell(buffers.out, 0, index, work::from_root(buffers, cells));
  }
};

/// two_shot: the root scatters slices, their owners spread them.
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
    if (!buffers.own_is_there) store_cell(buffers.out, buffers.rank, index, cell);
  }
  template <int kMax>
  BUSBW_HOST_DEVICE void store_others(std::int64_t index, const Cell (&cells)[kMax]) const {
    if (!buffers.own_is_there) work::store_others(buffers, index, cells);
  }
};

}  // namespace busbw::fastpath
