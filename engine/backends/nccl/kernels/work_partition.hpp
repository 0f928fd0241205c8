#pragma once
// Maps threads of ranks' kernels to elements. Constant expressions, so that kernels and host tests share them.
#include <cstddef>
#include <cstdint>

namespace busbw {

/// Bytes of the widest load and store.
inline constexpr unsigned kVectorBytes = 16;
inline constexpr unsigned kWarpThreads = 32;

/// A range of elements: aligned vectors in the middle, single elements before and after them.
struct VectorRange {
  std::size_t head;     // elements before the first vector
  std::size_t vectors;  // of kVectorBytes
  std::size_t tail;     // elements after the last vector
};

/// Splits `count` elements of `element_bytes` (1, 2, 4 or 8) that are read from byte offset `from` and written to byte
/// offset `to` of aligned memory. Returns no vectors if the two offsets are aligned differently.
constexpr VectorRange split_by_vectors(std::size_t from, std::size_t to, std::size_t count, unsigned element_bytes) {
  if (from % kVectorBytes != to % kVectorBytes) return {count, 0, 0};
  const std::size_t to_aligned = (kVectorBytes - from % kVectorBytes) % kVectorBytes / element_bytes;
  const std::size_t head = to_aligned < count ? to_aligned : count;
  const std::size_t vectors = (count - head) * element_bytes / kVectorBytes;
  return {head, vectors, count - head - vectors * (kVectorBytes / element_bytes)};
}

/// One of the threads that share the work.
struct Worker {
  std::size_t index;
  std::size_t count;
};

/// A thread of all ranks' kernels, which have equal grids. Threads of a warp are neighbors.
constexpr Worker worker_of_all(unsigned thread, unsigned block, unsigned threads, unsigned blocks, int rank,
                               int ranks) {
  return {thread + std::size_t{threads} * (static_cast<std::size_t>(rank) + std::size_t{block} * ranks),
          std::size_t{threads} * blocks * ranks};
}

/// Like worker_of_all, but consecutive warps alternate between ranks and blocks, so that small work is spread over all
/// of them.
constexpr Worker worker_across_all(unsigned thread, unsigned block, unsigned threads, unsigned blocks, int rank,
                                   int ranks) {
  const std::size_t warp = thread / kWarpThreads;
  return {thread % kWarpThreads + kWarpThreads * (static_cast<std::size_t>(rank) + (block + blocks * warp) * ranks),
          std::size_t{threads} * blocks * ranks};
}

/// A thread of its own rank's kernel.
constexpr Worker worker_of_rank(unsigned thread, unsigned block, unsigned threads, unsigned blocks) {
  return {thread + std::size_t{threads} * block, std::size_t{threads} * blocks};
}

/// Like worker_of_rank, but consecutive warps alternate between blocks.
constexpr Worker worker_across_blocks(unsigned thread, unsigned block, unsigned threads, unsigned blocks) {
  return worker_across_all(thread, block, threads, blocks, 0, 1);
}

/// Index of a thread's first vector, and distance to its next turn, if warps take turns of `unroll` rows of 32 vectors.
/// Its vector in row i is i * 32 further.
constexpr std::size_t first_vector(const Worker& worker, unsigned unroll) {
  return worker.index / kWarpThreads * kWarpThreads * unroll + worker.index % kWarpThreads;
}
constexpr std::size_t vector_stride(const Worker& worker, unsigned unroll) { return worker.count * unroll; }

/// Number of `vectors` in turns in which every thread has all its rows.
constexpr std::size_t vectors_in_full_strides(std::size_t vectors, const Worker& worker, unsigned unroll) {
  return vectors - vectors % vector_stride(worker, unroll);
}

/// Peer of `rank` in its step `step`. Each rank begins with another peer, so that no peer becomes a bottleneck.
constexpr int peer_of_step(int rank, int step, int ranks) {
  const int peer = rank + 1 + step;
  return peer < ranks ? peer : peer - ranks;
}

/// Block with the threads that send to `peer`, if thread t of the kernel sends to peers t, t + threads, ...
constexpr unsigned sending_block(int peer, unsigned threads, unsigned blocks) {
  return static_cast<unsigned>(peer) % (threads * blocks) / threads;
}

}  // namespace busbw
