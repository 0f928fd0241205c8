#pragma once
// Translates the arguments of an NCCL call into the operation that a kernel runs: method, buffers and grid. The headers
// of schedule/ define the terms: a cell is 16 bytes, a slice is one rank's part of a buffer, a grid is blocks and
// steps.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fastpath/schedule/collective.hpp"
#include "fastpath/schedule/direct.hpp"
#include "fastpath/schedule/grid.hpp"
#include "fastpath/schedule/work.hpp"

namespace busbw::fastpath {

struct MethodConfig;

/// Element types that the fast path reduces. All other types are only moved, as bytes.
enum class ElementType { bytes, float16, bfloat16, float32 };
/// Operators of NCCL that the fast path applies. User-defined operators are delegated.
enum class Redop { sum, prod, min, max, avg };

/// Returns nccl-tests' name of the type, such as "half", or "bytes".
std::string_view name(ElementType element) noexcept;

/// The arguments of an NCCL call, with its count in bytes.
struct CollectiveCall {
  Collective collective = Collective::all_reduce;
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t bytes = 0;  ///< size of NCCL's `count` elements; all-gather, reduce-scatter, alltoall: one rank's part
  ElementType element = ElementType::bytes;
  Redop redop = Redop::sum;  ///< ignored by collectives that do not reduce
  int root = 0;               ///< used by broadcast
};

/// Returns the size of a rank's send buffer in bytes.
std::size_t send_bytes(const CollectiveCall& call, int ranks) noexcept;
/// Returns the size of a rank's receive buffer in bytes.
std::size_t receive_bytes(const CollectiveCall& call, int ranks) noexcept;
/// Returns the size of a call as nccl-tests counts it: the larger of a rank's two buffers, in bytes.
std::size_t size_bytes(const CollectiveCall& call, int ranks) noexcept;
/// True if the call is in place as NCCL defines it: both buffers are the same, or the smaller buffer is this rank's
/// part of the larger one.
bool is_in_place(const CollectiveCall& call, int rank) noexcept;

/// The operation that the kernel of one rank runs.
struct Operation {
  Collective collective = Collective::all_reduce;
  Method method = Method::exchange;
  ElementType element = ElementType::bytes;  ///< `bytes` if the collective only moves data
  Redop redop = Redop::sum;
  Buffers buffers;          ///< used by exchange and two_shot
  DirectTransfer transfer;  ///< used by direct
  Grid grid;
};

/// Addresses of every rank's buffers of one call, as this rank's GPU sees them.
struct PeerBuffers {
  char* send[kMaxRanks] = {};
  char* receive[kMaxRanks] = {};
};

/// Returns the operation of one rank, for `exchange` and `two_shot`. The collective must support the method of
/// `config`. `max_cells` is the number of cells per step that a rank's scratch memory has space for. The grid is the
/// same on every rank.
Operation make_operation(const CollectiveCall& call, const MethodConfig& config, int rank, int ranks, int max_cells);

/// True if `direct` supports this call: its addresses and its size must be multiples of a cell's 16 bytes. The result
/// is the same on every rank if the buffers lie in symmetric windows.
bool supports_direct(const CollectiveCall& call) noexcept;

/// Returns the operation of one rank, for `direct`. The call must satisfy supports_direct(). The other parameters are
/// those of make_operation().
Operation make_direct_operation(const CollectiveCall& call, const MethodConfig& config, int rank, int ranks,
                                int max_cells, const PeerBuffers& peers);

}  // namespace busbw::fastpath
