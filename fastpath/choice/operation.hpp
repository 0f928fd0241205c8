#pragma once
// One collective as the GPU shall run it: from the arguments of NCCL's call to buffers, grid and work.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fastpath/schedule/collective.hpp"
#include "fastpath/schedule/direct.hpp"
#include "fastpath/schedule/grid.hpp"
#include "fastpath/schedule/work.hpp"

namespace busbw::fastpath {

struct MethodConfig;

/// Types that can be reduced here; everything else only moves, as bytes.
enum class ElementType { bytes, float16, bfloat16, float32 };
enum class Redop { sum, prod, min, max, avg };

/// As nccl-tests calls the type: "half"; "bytes" for what only moves.
std::string_view name(ElementType element) noexcept;

/// The arguments of NCCL's call, in bytes.
struct CollectiveCall {
  Collective collective = Collective::all_reduce;
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t bytes = 0;  ///< of `count` elements, as that collective counts them
  ElementType element = ElementType::bytes;
  Redop reduce = Redop::sum;
  int root = 0;
};

/// nccl-tests' size of a call: the larger of a rank's buffers.
std::size_t size_bytes(const CollectiveCall& call, int ranks) noexcept;

/// What one rank's kernel does.
struct Operation {
  Collective collective = Collective::all_reduce;
  Method method = Method::exchange;
  ElementType element = ElementType::bytes;
  Redop reduce = Redop::sum;
  Buffers buffers;  ///< of exchange and two_shot
  DirectTransfer share;      ///< of direct
  Grid grid;
};

/// Where every rank's buffers of one call are, as this rank's GPU sees them.
struct PeerBuffers {
  char* send[kMaxRanks] = {};
  char* receive[kMaxRanks] = {};
};

/// The operation of rank `rank` of `ranks`; `choice` is a possible method, and there are slots for `max_cells` cells.
/// The same grid on every rank.
Operation operation_of(const CollectiveCall& call, const MethodConfig& choice, int rank, int ranks, int max_cells);

/// Whether `direct` does such calls at all: with whole cells, at addresses that they can be read and written at. The
/// same on every rank where buffers lie in symmetric windows.
bool supports_direct(const CollectiveCall& call) noexcept;

/// The direct operation, for a call that is for it.
Operation direct_operation_of(const CollectiveCall& call, const MethodConfig& choice, int rank, int ranks, int max_cells,
                              const PeerBuffers& reach);

}  // namespace busbw::fastpath
