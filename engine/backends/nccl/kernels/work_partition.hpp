#pragma once
// Distributes elements, vectors and peers over the threads of the -D kernels. All functions are constant expressions,
// so that kernels and host tests share them. `thread` is the index in its block of `block_threads` threads.
#include <cstddef>
#include <cstdint>

namespace busbw {

/// Bytes of the widest load and store.
inline constexpr unsigned kVectorBytes = 16;
inline constexpr unsigned kWarpThreads = 32;

/// A range of elements: aligned vectors of kVectorBytes in the middle, single elements before and after them.
struct VectorRange {
  std::size_t head;     // elements before the first vector
  std::size_t vectors;
  std::size_t tail;     // elements after the last vector
};

/// Splits `count` elements of `element_bytes` (1, 2, 4 or 8). They are read from byte offset `send_offset` and written
/// to byte offset `recv_offset` of aligned memory. Returns no vectors if the two offsets are aligned differently.
/// Example: 100 floats at offset 8 are a head of 2, 24 vectors and a tail of 2.
constexpr VectorRange split_by_vectors(std::size_t send_offset, std::size_t recv_offset, std::size_t count,
                                       unsigned element_bytes) {
  if (send_offset % kVectorBytes != recv_offset % kVectorBytes) return {count, 0, 0};
  const std::size_t elements_to_alignment = (kVectorBytes - send_offset % kVectorBytes) % kVectorBytes / element_bytes;
  const std::size_t head = elements_to_alignment < count ? elements_to_alignment : count;
  const std::size_t vectors = (count - head) * element_bytes / kVectorBytes;
  return {head, vectors, count - head - vectors * (kVectorBytes / element_bytes)};
}

/// Thread number `index` of the `count` threads that share the work.
struct Worker {
  std::size_t index;
  std::size_t count;
};

/// A thread among the threads of all ranks, if all ranks share the work. Their kernels have equal grids. The threads of
/// a block have consecutive indexes: first those of block 0 of every rank, then those of block 1 of every rank.
constexpr Worker worker_among_ranks(unsigned thread, unsigned block, unsigned block_threads, unsigned blocks, int rank,
                                    int ranks) {
  return {thread + std::size_t{block_threads} * (static_cast<std::size_t>(rank) + std::size_t{block} * ranks),
          std::size_t{block_threads} * blocks * ranks};
}

/// Like worker_among_ranks, but consecutive warps belong to different ranks and blocks: first come the first warps of
/// all blocks, then their second warps. Work for a few warps is then spread over all ranks.
constexpr Worker interleaved_worker_among_ranks(unsigned thread, unsigned block, unsigned block_threads,
                                                unsigned blocks, int rank, int ranks) {
  const std::size_t warp = thread / kWarpThreads;
  return {thread % kWarpThreads + kWarpThreads * (static_cast<std::size_t>(rank) + (block + blocks * warp) * ranks),
          std::size_t{block_threads} * blocks * ranks};
}

/// A thread among the threads of its own rank, if each rank does its own work.
constexpr Worker worker_in_rank(unsigned thread, unsigned block, unsigned block_threads, unsigned blocks) {
  return {thread + std::size_t{block_threads} * block, std::size_t{block_threads} * blocks};
}

/// Like worker_in_rank, but consecutive warps belong to different blocks.
constexpr Worker interleaved_worker_in_rank(unsigned thread, unsigned block, unsigned block_threads, unsigned blocks) {
  return interleaved_worker_among_ranks(thread, block, block_threads, blocks, 0, 1);
}

/// Index of a thread's first vector. A warp processes `rows` consecutive rows of 32 vectors at a time, one vector per
/// thread and row. The thread's vector in row i is i * 32 further.
constexpr std::size_t first_vector(const Worker& worker, unsigned rows) {
  return worker.index / kWarpThreads * kWarpThreads * rows + worker.index % kWarpThreads;
}
/// Distance from a thread's first vector to the first vector of its next `rows` rows: the rows of all warps.
constexpr std::size_t vector_stride(const Worker& worker, unsigned rows) { return worker.count * rows; }

/// Number of `vectors` in full strides. In a full stride, every thread has a vector in each of its rows.
constexpr std::size_t vectors_in_full_strides(std::size_t vectors, const Worker& worker, unsigned rows) {
  return vectors - vectors % vector_stride(worker, rows);
}

/// Peer that `rank` serves in its step `step` of 0 .. ranks-1. In one step all ranks serve different peers, so that no
/// peer becomes a bottleneck. The last peer is the rank itself.
constexpr int peer_of_step(int rank, int step, int ranks) {
  const int peer = rank + 1 + step;
  return peer < ranks ? peer : peer - ranks;
}

/// Block that sends to `peer`, if worker w of a rank (worker_in_rank) sends to the peers w, w + worker count, ...
constexpr unsigned sending_block(int peer, unsigned block_threads, unsigned blocks) {
  return static_cast<unsigned>(peer) % (block_threads * blocks) / block_threads;
}

}  // namespace busbw
