#pragma once
// Works of the schedule `direct` (schedule.hpp): ranks read and write each other's buffers. Only its barriers use slots
// and tags. The buffers lie in symmetric windows, so peers can access them.
#include <cstdint>

#include "fastpath/schedule/collective.hpp"
#include "fastpath/schedule/host_device.hpp"
#include "fastpath/schedule/line.hpp"
#include "fastpath/schedule/schedule.hpp"

namespace busbw::fastpath {

/// The part of an operation that one rank does: it reads `cells` whole cells from each source and writes the result to
/// each target. Addresses are valid on this rank's GPU.
struct DirectTransfer {
  const char* sources[kMaxRanks] = {};  ///< in rank order if there is one source per rank
  char* targets[kMaxRanks] = {};
  int source_count = 0;
  int target_count = 0;
  std::int64_t cells = 0;
  int rank = 0;
  int ranks = 1;
};

namespace work {

/// Reads a cell that a peer may just have written. The load is volatile, so that it does not return stale cached data.
BUSBW_HOST_DEVICE Cell read_volatile(const char* address) {
  Cell cell;
#if defined(__CUDA_ARCH__)
  asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];" : "=l"(cell.low), "=l"(cell.high) : "l"(address) : "memory");
#else
  cell.low = reinterpret_cast<const std::uint64_t*>(address)[0];
  cell.high = reinterpret_cast<const std::uint64_t*>(address)[1];
#endif
  return cell;
}

BUSBW_HOST_DEVICE void write_cell(char* address, const Cell& cell) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.global.v2.u64 [%0], {%1, %2};" ::"l"(address), "l"(cell.low), "l"(cell.high) : "memory");
#else
  reinterpret_cast<std::uint64_t*>(address)[0] = cell.low;
  reinterpret_cast<std::uint64_t*>(address)[1] = cell.high;
#endif
}

/// Moves the cells of a thread. Loads kCellsInFlight cells of every source before it stores the first cell.
template <int kSources, int kTargets, int kCellsInFlight, class Reduction>
BUSBW_HOST_DEVICE void move_cells(const DirectTransfer& transfer, const Reduction& reduction, int thread, int threads) {
  for (std::int64_t first = thread; first < transfer.cells; first += std::int64_t{kCellsInFlight} * threads) {
    Cell cells[kCellsInFlight][kSources];
    BUSBW_UNROLL
    for (int i = 0; i < kCellsInFlight; ++i) {
      const std::int64_t index = first + std::int64_t{i} * threads;
      BUSBW_UNROLL
      for (int source = 0; source < kSources; ++source)
        if (index < transfer.cells && source < transfer.source_count)
          cells[i][source] = read_volatile(transfer.sources[source] + index * kCellBytes);
    }
    BUSBW_UNROLL
    for (int i = 0; i < kCellsInFlight; ++i) {
      const std::int64_t index = first + std::int64_t{i} * threads;
      if (index >= transfer.cells) continue;
      const Cell result = reduction.of(cells[i], transfer.source_count);
      BUSBW_UNROLL
      for (int target = 0; target < kTargets; ++target)
        if (target < transfer.target_count) write_cell(transfer.targets[target] + index * kCellBytes, result);
    }
  }
}

/// Reduction of collectives that only move data: returns the one source cell.
struct IdentityReduction {
  BUSBW_HOST_DEVICE Cell of(const Cell (&cells)[1], int) const { return cells[0]; }
};

}  // namespace work

/// All-reduce and reduce-scatter: one source per rank.
template <class Reduction>
struct DirectReduction {
  DirectTransfer buffers;
  Reduction reduction;

  template <class Fabric>
  BUSBW_HOST_DEVICE void move(const Fabric& fabric) const {
    constexpr int kMax = Fabric::kMaxRanks;
    // At most 16 loads of 16 bytes are in flight per thread. More loads need more registers than a thread has.
    work::move_cells<kMax, kMax, 16 / kMax>(buffers, reduction, fabric.thread(), fabric.threads());
  }
};

/// All-gather: the source is this rank's buffer.
struct DirectCopy {
  DirectTransfer buffers;

  template <class Fabric>
  BUSBW_HOST_DEVICE void move(const Fabric& fabric) const {
    work::move_cells<1, Fabric::kMaxRanks, 8>(buffers, work::IdentityReduction{}, fabric.thread(), fabric.threads());
  }
};

}  // namespace busbw::fastpath
