#pragma once
// One collective as the GPU shall run it: from the arguments of NCCL's call to buffers, grid and work.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fastpath/collective.hpp"
#include "fastpath/grid.hpp"
#include "fastpath/work.hpp"

namespace busbw::fastpath {

struct Choice;

inline constexpr int kMaxRanks = 8;

/// Types that can be reduced here; everything else only moves, as bytes.
enum class Element { bytes, float16, bfloat16, float32 };
enum class Reduce { sum, prod, min, max, avg };

/// As nccl-tests calls the type: "half"; "bytes" for what only moves.
std::string_view name(Element element) noexcept;

/// The arguments of NCCL's call, in bytes.
struct Call {
  Collective collective = Collective::all_reduce;
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t bytes = 0;  ///< of `count` elements, as that collective counts them
  Element element = Element::bytes;
  Reduce reduce = Reduce::sum;
  int root = 0;
};

/// nccl-tests' size of a call: the larger of a rank's buffers.
std::size_t size_bytes(const Call& call, int ranks) noexcept;

/// What one rank's kernel does.
struct Operation {
  Collective collective = Collective::all_reduce;
  Method method = Method::exchange;
  Element element = Element::bytes;
  Reduce reduce = Reduce::sum;
  Buffers buffers;
  Grid grid;
};

/// The operation of rank `rank` of `ranks`; `choice` is a possible method, and there are slots for `most_cells` cells. The
/// same grid on every rank.
Operation operation_of(const Call& call, const Choice& choice, int rank, int ranks, int most_cells);

}  // namespace busbw::fastpath
