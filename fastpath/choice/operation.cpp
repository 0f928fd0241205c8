// Sets the slices, sources and targets of an operation for each collective and method. A buffer of shares has one part
// (share) for each rank: an alltoall sends and receives shares.
#include "fastpath/choice/operation.hpp"

#include <algorithm>

#include "fastpath/choice/table.hpp"

namespace busbw::fastpath {
namespace {

/// Returns the largest of 8, 4, 2 and 1 that divides the address and the length of every slice.
int granule_of(const Slices& buffer) {
  // A power of two divides all values if it divides their bitwise OR. Slice i begins at data + i * stride. The last
  // slice may be shorter, with total - i * stride bytes, which such a power of two then divides too.
  const auto bits = reinterpret_cast<std::uintptr_t>(buffer.data) | static_cast<std::uintptr_t>(buffer.stride) |
                    static_cast<std::uintptr_t>(buffer.length) | static_cast<std::uintptr_t>(buffer.total);
  for (const int granule : {8, 4, 2})
    if (bits % static_cast<unsigned>(granule) == 0) return granule;
  return 1;
}

Slices make_slices(const void* data, std::size_t stride, std::size_t length, std::size_t total) {
  Slices buffer;
  buffer.data = static_cast<char*>(const_cast<void*>(data));
  buffer.stride = static_cast<std::int64_t>(stride);
  buffer.length = static_cast<std::int64_t>(length);
  buffer.total = static_cast<std::int64_t>(total);
  buffer.granule = granule_of(buffer);
  return buffer;
}

/// Returns the whole buffer as one slice that goes to or comes from every rank.
Slices whole_buffer(const void* data, std::size_t bytes) { return make_slices(data, 0, bytes, bytes); }

/// Returns a buffer that consists of one slice of `slice_length` bytes for each rank.
Slices slice_per_rank(const void* data, std::size_t slice_length, int ranks) {
  return make_slices(data, slice_length, slice_length, slice_length * static_cast<std::size_t>(ranks));
}

/// Returns a buffer of `bytes` that two_shot divides into one slice of whole lines for each rank.
Slices divided_buffer(const void* data, std::size_t bytes, int ranks) {
  const std::size_t length = slice_bytes(bytes, ranks);
  return make_slices(data, length, length, bytes);
}

/// Returns the cells of a full slice if the ranks divide a buffer of `cells` for `direct`, in whole lines of
/// kCellsOfLine cells. Unlike in slice_bytes(), a line has 128 bytes of data, because `direct` sends no tags. Example:
/// 100 cells on 4 ranks are slices of 32, 32, 32 and 4.
std::int64_t direct_slice_cells(std::int64_t cells, int ranks) {
  const std::int64_t cells_of_one_line_per_rank = std::int64_t{ranks} * kCellsOfLine;
  const std::int64_t lines_per_rank = (cells + cells_of_one_line_per_rank - 1) / cells_of_one_line_per_rank;
  return lines_per_rank * kCellsOfLine;
}

/// Returns an operation with the fields that every method has. The caller sets its buffers and its grid.
Operation make_partial_operation(const CollectiveCall& call, const MethodConfig& config) {
  Operation operation;
  operation.collective = call.collective;
  operation.method = config.method;
  operation.element = facts_of(call.collective).reduces ? call.element : ElementType::bytes;
  operation.redop = call.redop;
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

std::size_t send_bytes(const CollectiveCall& call, int ranks) noexcept {
  return facts_of(call.collective).sends_shares ? call.bytes * static_cast<std::size_t>(ranks) : call.bytes;
}

std::size_t receive_bytes(const CollectiveCall& call, int ranks) noexcept {
  return facts_of(call.collective).receives_shares ? call.bytes * static_cast<std::size_t>(ranks) : call.bytes;
}

std::size_t size_bytes(const CollectiveCall& call, int ranks) noexcept {
  return std::max(send_bytes(call, ranks), receive_bytes(call, ranks));
}

bool is_in_place(const CollectiveCall& call, int rank) noexcept {
  const CollectiveFacts& facts = facts_of(call.collective);
  const std::size_t own_offset = static_cast<std::size_t>(rank) * call.bytes;
  const auto* const own_input = static_cast<const char*>(call.send) + (facts.sends_shares ? own_offset : 0);
  const auto* const own_output = static_cast<const char*>(call.receive) + (facts.receives_shares ? own_offset : 0);
  return own_input == own_output;
}

Operation make_operation(const CollectiveCall& call, const MethodConfig& config, int rank, int ranks, int max_cells) {
  Operation operation = make_partial_operation(call, config);
  Buffers& buffers = operation.buffers;
  buffers.rank = rank;
  buffers.ranks = ranks;
  buffers.root = call.root;
  const bool two_shot = config.method == Method::two_shot;
  const CollectiveFacts& facts = facts_of(call.collective);
  const auto slices_of = [&](const void* data, bool has_shares) {
    if (has_shares) return slice_per_rank(data, call.bytes, ranks);
    return two_shot ? divided_buffer(data, call.bytes, ranks) : whole_buffer(data, call.bytes);
  };
  buffers.in = slices_of(call.send, facts.sends_shares);
  buffers.out = slices_of(call.receive, facts.receives_shares);
  const bool has_input = !facts.only_root_sends || rank == call.root;
  buffers.own_in_place = !facts.reduces && has_input && is_in_place(call, rank);
  const std::size_t max_slice_bytes = two_shot ? slice_bytes(call.bytes, ranks) : call.bytes;
  operation.grid = grid_for(max_slice_bytes, config.blocks, config.threads, max_cells);
  return operation;
}

bool supports_direct(const CollectiveCall& call) noexcept {
  const auto bits = reinterpret_cast<std::uintptr_t>(call.send) | reinterpret_cast<std::uintptr_t>(call.receive) |
                    static_cast<std::uintptr_t>(call.bytes);
  return bits % kCellBytes == 0 && supports(call.collective, Method::direct);
}

Operation make_direct_operation(const CollectiveCall& call, const MethodConfig& config, int rank, int ranks,
                                int max_cells, const PeerBuffers& peers) {
  Operation operation = make_partial_operation(call, config);
  DirectTransfer& transfer = operation.transfer;
  transfer.rank = rank;
  transfer.ranks = ranks;
  const auto call_cells = static_cast<std::int64_t>(call.bytes / kCellBytes);
  const CollectiveFacts& facts = facts_of(call.collective);
  // `direct` runs only all-reduce, all-gather and reduce-scatter. In the last two, the call has the size of one slice.
  std::int64_t max_slice_cells = call_cells;
  std::int64_t total_cells = ranks * call_cells;
  const bool do_ranks_divide_buffer = !facts.sends_shares && !facts.receives_shares;
  if (do_ranks_divide_buffer) {  // all-reduce
    max_slice_cells = direct_slice_cells(call_cells, ranks);
    total_cells = call_cells;
  }
  const std::int64_t first_cell = std::min(total_cells, rank * max_slice_cells);
  transfer.cell_count = std::min(max_slice_cells, total_cells - first_cell);
  const std::int64_t slice_offset_bytes = first_cell * kCellBytes;
  if (facts.receives_shares) {  // all-gather: reads this rank's own data
    transfer.sources[transfer.source_count++] = static_cast<const char*>(call.send);
  } else {
    for (int source = 0; source < ranks; ++source)
      transfer.sources[transfer.source_count++] = peers.send[source] + slice_offset_bytes;
  }
  if (facts.sends_shares) {  // reduce-scatter: writes this rank's own result
    transfer.targets[transfer.target_count++] = static_cast<char*>(call.receive);
  } else {
    // Each rank starts with itself, so that the ranks do not all write to the same GPU at the same time.
    for (int distance = 0; distance < ranks; ++distance) {
      char* const target = peers.receive[(rank + distance) % ranks] + slice_offset_bytes;
      const bool has_data_already = facts.receives_shares && target == call.send;  // all-gather in place
      if (!has_data_already) transfer.targets[transfer.target_count++] = target;
    }
  }
  operation.grid = direct_grid(max_slice_cells, config.blocks, config.threads, max_cells);
  return operation;
}

}  // namespace busbw::fastpath
