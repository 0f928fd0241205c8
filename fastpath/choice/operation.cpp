#include "fastpath/choice/operation.hpp"

#include <algorithm>

#include "fastpath/choice/table.hpp"

namespace busbw::fastpath {
namespace {

/// The largest of 8, 4, 2, 1 that divides the address and the length of every slice.
int granule_of(const Slices& all) {
  const auto bits = reinterpret_cast<std::uintptr_t>(all.data) | static_cast<std::uintptr_t>(all.stride) |
                    static_cast<std::uintptr_t>(all.length) | static_cast<std::uintptr_t>(all.total);
  for (const int granule : {8, 4, 2})
    if (bits % static_cast<unsigned>(granule) == 0) return granule;
  return 1;
}

Slices slices_of(const void* data, std::size_t stride, std::size_t length, std::size_t total) {
  Slices all;
  all.data = static_cast<char*>(const_cast<void*>(data));
  all.stride = static_cast<std::int64_t>(stride);
  all.length = static_cast<std::int64_t>(length);
  all.total = static_cast<std::int64_t>(total);
  all.granule = granule_of(all);
  return all;
}

/// The whole buffer, for everybody or from everybody.
Slices whole(const void* data, std::size_t bytes) { return slices_of(data, 0, bytes, bytes); }

/// One part of `bytes` for each rank.
Slices parts(const void* data, std::size_t bytes, int ranks) {
  return slices_of(data, bytes, bytes, bytes * static_cast<std::size_t>(ranks));
}

/// A buffer of `bytes`, cut into a slice for each rank.
Slices cut(const void* data, std::size_t bytes, int ranks) {
  const std::size_t length = slice_bytes(bytes, ranks);
  return slices_of(data, length, length, bytes);
}

/// What every operation has of its call and choice; its buffers and its grid are to come.
Operation begun(const CollectiveCall& call, const MethodConfig& choice) {
  Operation operation;
  operation.collective = call.collective;
  operation.method = choice.method;
  operation.element = call.element;
  operation.reduce = call.reduce;
  return operation;
}

}  // namespace

std::string_view name(ElementType element) noexcept {
  switch (element) {
    case ElementType::float16: return "half";
    case ElementType::bfloat16: return "bfloat16";
    case ElementType::float32: return "float";
    case ElementType::bytes: break;
  }
  return "bytes";
}

std::size_t size_bytes(const CollectiveCall& call, int ranks) noexcept {
  switch (call.collective) {
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::alltoall: return call.bytes * static_cast<std::size_t>(ranks);
    case Collective::all_reduce:
    case Collective::broadcast: return call.bytes;
  }
  return call.bytes;
}

Operation operation_of(const CollectiveCall& call, const MethodConfig& choice, int rank, int ranks, int max_cells) {
  Operation operation = begun(call, choice);
  Buffers& b = operation.buffers;
  b.rank = rank;
  b.ranks = ranks;
  b.root = call.root;
  const bool two_shot = choice.method == Method::two_shot;
  const auto own = static_cast<std::size_t>(rank) * call.bytes;
  switch (call.collective) {
    case Collective::all_reduce:
      b.in = two_shot ? cut(call.send, call.bytes, ranks) : whole(call.send, call.bytes);
      b.out = two_shot ? cut(call.receive, call.bytes, ranks) : whole(call.receive, call.bytes);
      break;
    case Collective::all_gather:
      b.in = whole(call.send, call.bytes);
      b.out = parts(call.receive, call.bytes, ranks);
      b.own_is_there = static_cast<const char*>(call.send) == static_cast<const char*>(call.receive) + own;
      break;
    case Collective::reduce_scatter:
      b.in = parts(call.send, call.bytes, ranks);
      b.out = whole(call.receive, call.bytes);
      break;
    case Collective::alltoall:
      b.in = parts(call.send, call.bytes, ranks);
      b.out = parts(call.receive, call.bytes, ranks);
      b.own_is_there = call.send == call.receive;
      break;
    case Collective::broadcast:
      b.in = two_shot ? cut(call.send, call.bytes, ranks) : whole(call.send, call.bytes);
      b.out = two_shot ? cut(call.receive, call.bytes, ranks) : whole(call.receive, call.bytes);
      b.own_is_there = rank == call.root && call.send == call.receive;
      break;
  }
  const std::size_t bytes = two_shot ? slice_bytes(call.bytes, ranks) : call.bytes;
  operation.grid = grid_for(bytes, choice.blocks, choice.threads, max_cells);
  return operation;
}

bool supports_direct(const CollectiveCall& call) noexcept {
  const auto bits = reinterpret_cast<std::uintptr_t>(call.send) | reinterpret_cast<std::uintptr_t>(call.receive) |
                    static_cast<std::uintptr_t>(call.bytes);
  return supports(call.collective, Method::direct) && bits % kCellBytes == 0;
}

Operation direct_operation_of(const CollectiveCall& call, const MethodConfig& choice, int rank, int ranks, int max_cells,
                              const PeerBuffers& reach) {
  Operation operation = begun(call, choice);
  DirectTransfer& share = operation.share;
  share.rank = rank;
  share.ranks = ranks;
  const auto cells = static_cast<std::int64_t>(call.bytes / kCellBytes);
  std::int64_t max_of_share = cells;
  std::int64_t first = 0;  // of this rank's cells within a buffer
  if (call.collective == Collective::all_reduce) {
    // Slices of whole lines, the last ones shorter or empty.
    max_of_share = (cells + ranks * kCellsOfLine - 1) / (ranks * kCellsOfLine) * kCellsOfLine;
    first = std::min(cells, rank * max_of_share);
    share.cells = std::min(max_of_share, cells - first);
  } else {
    first = rank * cells;
    share.cells = cells;
  }
  const std::int64_t offset = first * kCellBytes;
  if (call.collective == Collective::all_gather) {
    share.sources[share.source_count++] = static_cast<const char*>(call.send);
  } else {
    for (int r = 0; r < ranks; ++r) share.sources[share.source_count++] = reach.send[r] + offset;
  }
  if (call.collective == Collective::reduce_scatter) {
    share.targets[share.target_count++] = static_cast<char*>(call.receive);
  } else {
    // Each rank begins with another one, so that not all write to the same.
    for (int r = 0; r < ranks; ++r) {
      char* const target = reach.receive[(rank + r) % ranks] + offset;
      const bool is_there = call.collective == Collective::all_gather && target == call.send;
      if (!is_there) share.targets[share.target_count++] = target;
    }
  }
  operation.grid = direct_grid(max_of_share, choice.blocks, choice.threads, max_cells);
  return operation;
}

}  // namespace busbw::fastpath
