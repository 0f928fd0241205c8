#pragma once
// Schedules for the exchange of data between ranks, as code for one thread of one rank. The kernels run this code.
//
// They are templates over a Fabric and a Work. A Fabric transports cells to peers. A Work maps cells to the user's
// buffers and reduces cells. The GPU therefore runs the same code that the model in tests/fastpath checks on the host
// under weakly ordered memory.
//
// Terms:
//
//   - Cell: 16 bytes, the unit that a thread moves at a time. Eight cells form a line of 128 bytes (line.hpp).
//   - Step: every thread sends a batch of cells to every peer and receives as many from every peer.
//   - Tag: number of a step, counted over all operations of a lane (device/launch.hpp). Each line that is sent carries
//     the tag of its step, so the receiver sees in its own memory when the line has arrived.
//   - Slot: place in a rank's scratch memory for one cell from one peer.
//
// Thread t of a rank communicates only with thread t of every other rank. Even and odd tags use separate slots. A slot
// is free again two steps later for this reason:
//
//   - Thread t writes into its slot at peer p for tag s + 2 only after it took p's cells of tag s + 1.
//   - Thread t of p sent these cells only after it took all cells of tag s.
//
// So EVERY pair of ranks must exchange cells in every step, also if the collective has no data for them. All threads
// take part in all steps.
//
// A Fabric has the following members. `region` selects a set of slots (kRegions), and `batch_index` is the index of a
// cell in its thread's batch.
//   kMaxRanks                                   maximum number of ranks, a constant
//   rank(), ranks(), thread(), threads()        threads(): threads of one rank, the same on every rank
//   batch()                                     cells per thread and step, the same on every rank
//   put(peer, region, batch_index, tag, cell)   writes a cell into this rank's slot at the peer
//   take(region, batch_index, tag, cells)       waits for the cell of every peer and sets cells[peer], but not
//                                               cells[rank()]; returns false if aborted
//   barrier(tag)                                direct: waits until the same block of every rank has called it and has
//                                               completed its earlier reads and writes; returns false if aborted
// A Work has the following members. `index` is the index of a cell in the data or in a slice of them.
//   buffers                      has this rank and the number of ranks (device/kernel.cuh)
//   load(index, cells)           sets cells[p] to the cell with this index for rank p
//   load_own(index, cells)       sets cells[rank()] to this rank's own contribution
//   store(index, cells)          exchange: stores the cells from all ranks, or their reduction
//   reduce(cells) -> Cell        two_shot: returns the result for this rank's slice
//   keep(index, cell)            two_shot: stores the result of this rank's slice
//   store_others(index, cells)   two_shot: stores the results of the other slices
//   move(fabric)                 direct: moves this thread's cells between the ranks' buffers
#include <cstdint>

#include "fastpath/schedule/host_device.hpp"

namespace busbw::fastpath {

/// A cell. The eighth cell of a line has 8 bytes of data followed by the tag.
struct Cell {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};

/// Slot regions, which are separate sets of slots. The second one is for the second half of two_shot.
inline constexpr int kFirstRegion = 0;
inline constexpr int kResultRegion = 1;
inline constexpr int kRegions = 2;

/// Begins a step: sends a batch of cells to every peer. `index` is the index of the first cell.
template <class Fabric, class Work>
BUSBW_HOST_DEVICE void send_batch(Fabric& fabric, Work& work, std::int64_t index, std::uint64_t tag) {
  for (int batch_index = 0; batch_index < fabric.batch(); ++batch_index, index += fabric.threads()) {
    Cell cells[Fabric::kMaxRanks];
    work.load(index, cells);
    BUSBW_UNROLL
    for (int peer = 0; peer < Fabric::kMaxRanks; ++peer)
      if (peer < fabric.ranks() && peer != fabric.rank()) fabric.put(peer, kFirstRegion, batch_index, tag, cells[peer]);
  }
}

/// Runs `exchange`: each rank sends a cell to each peer, then stores or reduces the cells it received. Used for
/// all-gather, all-to-all, broadcast, reduce-scatter and the one-shot all-reduce. Uses the tags first_tag to
/// first_tag + steps - 1.
template <class Fabric, class Work>
BUSBW_HOST_DEVICE void exchange(Fabric& fabric, Work& work, std::uint64_t first_tag, int steps) {
  std::int64_t index = fabric.thread();
  for (int step = 0; step < steps; ++step) {
    const std::uint64_t tag = first_tag + static_cast<std::uint64_t>(step);
    send_batch(fabric, work, index, tag);
    for (int batch_index = 0; batch_index < fabric.batch(); ++batch_index, index += fabric.threads()) {
      Cell cells[Fabric::kMaxRanks];
      work.load_own(index, cells);
      if (!fabric.take(kFirstRegion, batch_index, tag, cells)) return;
      work.store(index, cells);
    }
  }
}

/// Runs `two_shot`: each rank owns a slice of the buffer. It receives that slice from all ranks, reduces it and sends
/// the result to all. Used for all-reduce of larger sizes, and for broadcast as a scatter and an all-gather. A cell
/// index counts within a slice. Uses the same tags as `exchange`.
template <class Fabric, class Work>
BUSBW_HOST_DEVICE void two_shot(Fabric& fabric, Work& work, std::uint64_t first_tag, int steps) {
  std::int64_t index = fabric.thread();
  for (int step = 0; step < steps; ++step) {
    const std::uint64_t tag = first_tag + static_cast<std::uint64_t>(step);
    const std::int64_t first_index = index;
    send_batch(fabric, work, first_index, tag);
    for (int batch_index = 0; batch_index < fabric.batch(); ++batch_index, index += fabric.threads()) {
      Cell cells[Fabric::kMaxRanks];
      work.load_own(index, cells);
      if (!fabric.take(kFirstRegion, batch_index, tag, cells)) return;
      const Cell result = work.reduce(cells);
      BUSBW_UNROLL
      for (int peer = 0; peer < Fabric::kMaxRanks; ++peer)
        if (peer < fabric.ranks() && peer != fabric.rank()) fabric.put(peer, kResultRegion, batch_index, tag, result);
      work.keep(index, result);
    }
    index = first_index;
    for (int batch_index = 0; batch_index < fabric.batch(); ++batch_index, index += fabric.threads()) {
      Cell cells[Fabric::kMaxRanks];
      if (!fabric.take(kResultRegion, batch_index, tag, cells)) return;
      work.store_others(index, cells);
    }
  }
}

/// Runs `direct`: ranks read and write each other's buffers between two barriers. Uses the tags first_tag and
/// first_tag + 1.
///
/// Until a rank enters the first barrier, its earlier work may use its buffers. Until all ranks enter the second
/// barrier, peers may access its buffers. A block waits only for the block with the same index on each other rank. This
/// is enough for two reasons:
///
/// - A running block shows that the earlier work of its rank has ended.
/// - The later work of a rank begins after its last block has ended, so after every block has passed both barriers.
template <class Fabric, class Work>
BUSBW_HOST_DEVICE void direct(Fabric& fabric, Work& work, std::uint64_t first_tag) {
  if (!fabric.barrier(first_tag)) return;
  work.move(fabric);
  fabric.barrier(first_tag + 1);
}

/// Number of steps of every direct operation, which is its number of barriers.
inline constexpr int kDirectSteps = 2;

}  // namespace busbw::fastpath
