#pragma once
// The schedules by which ranks pass data to each other, as code for one thread of one rank.
//
// They are templates over a Fabric (how a cell reaches a peer) and a Work (which bytes of the user's buffers are in a
// cell, how cells are reduced), so that the GPU runs the very code that the model in tests/fastpath checks on the host
// under weakly ordered memory.
//
// Thread t of a rank talks to thread t of every other rank and to nobody else. In each step it writes a batch of cells
// into slots of every peer's memory, marked with the step's tag, and waits for the cells that its peers write into its
// own. Slots are used in turns by even and odd tags. Why a slot is free again two steps later: thread t writes into its
// slot at peer p for tag s + 2 only after it took p's cells of tag s + 1, and p's thread t sent those only after it
// took everything of tag s. So EVERY pair of ranks must send each other cells in every step, also where a collective
// has nothing to say, and all threads take part in all steps.
//
// A Fabric has
//   kMaxRanks                                   room for this many ranks, a constant
//   rank(), ranks(), thread(), threads()        threads: of one rank, the same on every rank
//   batch()                                     cells of a thread in a step, the same on every rank
//   put(peer, region, turn, tag, cell)          into this rank's slot at that peer; turn: which of the batch
//   take(region, turn, tag, cells) -> bool      waits for every peer's cell, cells[rank()] stays; false: aborted
//   meet(tag) -> bool                           direct: comes back when the same block of every rank has come, and what
//                                               it had read and written before is done; false: aborted
// A Work has
//   load(index, cells)           cells[p]: what goes to rank p of the cell with this index
//   load_own(index, cells)       cells[rank()]: what this rank keeps for itself of it
//   store(index, cells)          exchange: makes the result of what came from each rank
//   reduce(cells) -> Cell        two_shot: the result of this rank's slice,
//   keep(index, cell)            which it keeps itself, too
//   store_others(index, cells)   two_shot: keeps the other slices' results
//   move(fabric)                 direct: this thread's share of reading and writing peers' buffers
#include <cstdint>

#include "fastpath/schedule/host_device.hpp"

namespace busbw::fastpath {

/// What one thread moves at a time: 16 bytes of a line. The eighth of a line's cells has 8 bytes, the tag is behind
/// them.
struct Cell {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};

/// Regions of slots: the second one is for the second half of two_shot.
inline constexpr int kRegions = 2;

/// The begin of a step: a batch of cells, of which the first has this index, goes to every peer.
template <class Fabric, class Work>
BUSBW_HOST_DEVICE void send_batch(Fabric& fabric, Work& work, std::int64_t index, std::uint64_t tag) {
  for (int turn = 0; turn < fabric.batch(); ++turn, index += fabric.threads()) {
    Cell cells[Fabric::kMaxRanks];
    work.load(index, cells);
    BUSBW_UNROLL
    for (int peer = 0; peer < Fabric::kMaxRanks; ++peer)
      if (peer < fabric.ranks() && peer != fabric.rank()) fabric.put(peer, 0, turn, tag, cells[peer]);
  }
}

/// Each rank sends a cell to each, then keeps what it got: all-gather, all-to-all, broadcast, and with a reduction in
/// Work::store reduce-scatter and the one-shot all-reduce. Tags first_tag to first_tag + steps - 1 are used up.
template <class Fabric, class Work>
BUSBW_HOST_DEVICE void exchange(Fabric& fabric, Work& work, std::uint64_t first_tag, int steps) {
  std::int64_t index = fabric.thread();
  for (int step = 0; step < steps; ++step) {
    const std::uint64_t tag = first_tag + static_cast<std::uint64_t>(step);
    send_batch(fabric, work, index, tag);
    for (int turn = 0; turn < fabric.batch(); ++turn, index += fabric.threads()) {
      Cell cells[Fabric::kMaxRanks];
      work.load_own(index, cells);
      if (!fabric.take(0, turn, tag, cells)) return;
      work.store(index, cells);
    }
  }
}

/// Each rank owns a slice: it gets that slice from all, reduces it, and sends the result to all. All-reduce of larger
/// sizes; broadcast as a scatter and an all-gather. A cell index counts within a slice.
template <class Fabric, class Work>
BUSBW_HOST_DEVICE void two_shot(Fabric& fabric, Work& work, std::uint64_t first_tag, int steps) {
  std::int64_t index = fabric.thread();
  for (int step = 0; step < steps; ++step) {
    const std::uint64_t tag = first_tag + static_cast<std::uint64_t>(step);
    const std::int64_t first = index;
    send_batch(fabric, work, first, tag);
    for (int turn = 0; turn < fabric.batch(); ++turn, index += fabric.threads()) {
      Cell cells[Fabric::kMaxRanks];
      work.load_own(index, cells);
      if (!fabric.take(0, turn, tag, cells)) return;
      const Cell result = work.reduce(cells);
      BUSBW_UNROLL
      for (int peer = 0; peer < Fabric::kMaxRanks; ++peer)
        if (peer < fabric.ranks() && peer != fabric.rank()) fabric.put(peer, 1, turn, tag, result);
      work.keep(index, result);
    }
    index = first;
    for (int turn = 0; turn < fabric.batch(); ++turn, index += fabric.threads()) {
      Cell cells[Fabric::kMaxRanks];
      if (!fabric.take(1, turn, tag, cells)) return;
      work.store_others(index, cells);
    }
  }
}

/// Ranks read and write each other's buffers: after everybody has come, since a buffer is the program's until then, and
/// before anybody leaves. A block waits for the same block of the others only: where one has begun, all that its rank
/// did before has ended, and a kernel ends with its last block. Tags first_tag and first_tag + 1 are used up.
template <class Fabric, class Work>
BUSBW_HOST_DEVICE void direct(Fabric& fabric, Work& work, std::uint64_t first_tag) {
  if (!fabric.meet(first_tag)) return;
  work.move(fabric);
  fabric.meet(first_tag + 1);
}

/// Steps of every direct operation.
inline constexpr int kDirectSteps = 2;

}  // namespace busbw::fastpath
