#pragma once
// Operations on buffers that peers reach: the Works of the schedule `direct`.
#include <cstdint>

#include "fastpath/schedule/collective.hpp"
#include "fastpath/schedule/host_device.hpp"
#include "fastpath/schedule/line.hpp"
#include "fastpath/schedule/schedule.hpp"

namespace busbw::fastpath {

/// One rank's share: from each source a piece of `cells` whole cells, the result of which goes to each target.
/// Addresses are as this rank's GPU sees them.
struct DirectTransfer {
  const char* sources[kMaxRanks] = {};  ///< in the order of the ranks, if there is one for each
  char* targets[kMaxRanks] = {};
  int source_count = 0;
  int target_count = 0;
  std::int64_t cells = 0;
  int rank = 0;
  int ranks = 1;
};

namespace work {

/// What a peer wrote lately: never from a cache that does not know of it.
BUSBW_HOST_DEVICE Cell read_volatile(const char* at) {
  Cell cell;
#if defined(__CUDA_ARCH__)
  asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];" : "=l"(cell.low), "=l"(cell.high) : "l"(at) : "memory");
#else
  cell.low = reinterpret_cast<const std::uint64_t*>(at)[0];
  cell.high = reinterpret_cast<const std::uint64_t*>(at)[1];
#endif
  return cell;
}

BUSBW_HOST_DEVICE void write_cell(char* at, const Cell& cell) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.global.v2.u64 [%0], {%1, %2};" ::"l"(at), "l"(cell.low), "l"(cell.high) : "memory");
#else
  reinterpret_cast<std::uint64_t*>(at)[0] = cell.low;
  reinterpret_cast<std::uint64_t*>(at)[1] = cell.high;
#endif
}

/// Moves a thread's cells: those that are kTogether threads' strides apart are on their way at once.
template <int kSources, int kTargets, int kTogether, class Reduction>
BUSBW_HOST_DEVICE void move_cells(const DirectTransfer& share, const Reduction& reduction, int thread, int threads) {
  for (std::int64_t first = thread; first < share.cells; first += std::int64_t{kTogether} * threads) {
    Cell cells[kTogether][kSources];
    BUSBW_UNROLL
    for (int i = 0; i < kTogether; ++i) {
      const std::int64_t index = first + std::int64_t{i} * threads;
      BUSBW_UNROLL
      for (int s = 0; s < kSources; ++s)
        if (index < share.cells && s < share.source_count)
          cells[i][s] = read_volatile(share.sources[s] + index * kCellBytes);
    }
    BUSBW_UNROLL
    for (int i = 0; i < kTogether; ++i) {
      const std::int64_t index = first + std::int64_t{i} * threads;
      if (index >= share.cells) continue;
      const Cell result = reduction.of(cells[i], share.source_count);
      BUSBW_UNROLL
      for (int t = 0; t < kTargets; ++t)
        if (t < share.target_count) write_cell(share.targets[t] + index * kCellBytes, result);
    }
  }
}

/// What is only moved.
struct IdentityReduction {
  BUSBW_HOST_DEVICE Cell of(const Cell (&cells)[1], int) const { return cells[0]; }
};

}  // namespace work

/// All-reduce and reduce-scatter: a source for each rank.
template <class Reduction>
struct DirectReduction {
  DirectTransfer buffers;
  Reduction reduction;

  template <class Fabric>
  BUSBW_HOST_DEVICE void move(const Fabric& fabric) const {
    constexpr int kMax = Fabric::kMaxRanks;
    // Up to 16 pieces of 16 bytes are under way for each thread; more takes more registers than there are.
    work::move_cells<kMax, kMax, 16 / kMax>(buffers, reduction, fabric.thread(), fabric.threads());
  }
};

/// All-gather: this rank's own buffer.
struct DirectCopy {
  DirectTransfer buffers;

  template <class Fabric>
  BUSBW_HOST_DEVICE void move(const Fabric& fabric) const {
    work::move_cells<1, Fabric::kMaxRanks, 8>(buffers, work::IdentityReduction{}, fabric.thread(), fabric.threads());
  }
};

}  // namespace busbw::fastpath
