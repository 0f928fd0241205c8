#pragma once
// The Work types of the schedule `direct`: ranks read and write each other's buffers. schedule.hpp explains Work,
// Fabric and cell. The buffers lie in symmetric windows, so peers can access them. Data does not pass through scratch
// memory.
#include <cstdint>

#include "fastpath/schedule/collective.hpp"
#include "fastpath/schedule/host_device.hpp"
#include "fastpath/schedule/line.hpp"
#include "fastpath/schedule/schedule.hpp"

namespace busbw::fastpath {

/// The part of an operation that one rank does: it reads `cell_count` whole cells from each source and writes the
/// result to each target. Addresses are valid on this rank's GPU.
struct DirectTransfer {
  const char* sources[kMaxRanks] = {};  ///< in rank order if there is one source per rank
  char* targets[kMaxRanks] = {};
  int source_count = 0;
  int target_count = 0;
  std::int64_t cell_count = 0;
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

/// Moves the cells of a thread, in passes of up to kCellsInFlight cells. Each pass loads its cells of every source
/// before the pass stores a result, so that all its loads are in flight together.
template <int kSources, int kTargets, int kCellsInFlight, class Reduction>
BUSBW_HOST_DEVICE void move_cells(const DirectTransfer& transfer, const Reduction& reduction, int thread, int threads) {
  for (std::int64_t first = thread; first < transfer.cell_count; first += std::int64_t{kCellsInFlight} * threads) {
    Cell loaded[kCellsInFlight][kSources];
    BUSBW_UNROLL
    for (int i = 0; i < kCellsInFlight; ++i) {
      const std::int64_t index = first + std::int64_t{i} * threads;
      BUSBW_UNROLL
      for (int source = 0; source < kSources; ++source)
        if (index < transfer.cell_count && source < transfer.source_count)
          loaded[i][source] = read_volatile(transfer.sources[source] + index * kCellBytes);
    }
    BUSBW_UNROLL
    for (int i = 0; i < kCellsInFlight; ++i) {
      const std::int64_t index = first + std::int64_t{i} * threads;
      if (index >= transfer.cell_count) continue;
      const Cell result = reduction.of(loaded[i], transfer.source_count);
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
    constexpr int kMaxSources = Fabric::kMaxRanks;  // at most busbw::fastpath::kMaxRanks
    // 16 loads of 16 bytes need 64 of the registers that the launch bounds allow (device/kernel.cuh): up to 128.
    constexpr int kMaxLoadsInFlight = 16;
    constexpr int kCellsInFlight = kMaxLoadsInFlight / kMaxSources;
    work::move_cells<kMaxSources, Fabric::kMaxRanks, kCellsInFlight>(buffers, reduction, fabric.thread(),
                                                                     fabric.threads());
  }
};

/// All-gather: the source is this rank's buffer.
struct DirectCopy {
  DirectTransfer buffers;

  template <class Fabric>
  BUSBW_HOST_DEVICE void move(const Fabric& fabric) const {
    constexpr int kCellsInFlight = 8;  // with one source, 8 loads, which need 32 registers
    work::move_cells<1, Fabric::kMaxRanks, kCellsInFlight>(buffers, work::IdentityReduction{}, fabric.thread(),
                                                           fabric.threads());
  }
};

}  // namespace busbw::fastpath
