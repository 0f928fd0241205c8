#include "backends/nccl/kernels/work_partition.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

using namespace busbw;

namespace {

struct Grid {
  unsigned threads;
  unsigned blocks;
  int ranks;
};
constexpr Grid kGrids[] = {{32, 1, 1}, {32, 1, 4}, {64, 3, 2}, {96, 2, 5}};

/// Counts how often the threads of all ranks take each of `vectors`.
std::vector<int> taken(const Grid& grid, std::size_t vectors, unsigned unroll) {
  std::vector<int> times(vectors);
  for (int rank = 0; rank < grid.ranks; ++rank)
    for (unsigned block = 0; block < grid.blocks; ++block)
      for (unsigned thread = 0; thread < grid.threads; ++thread) {
        const Worker worker = worker_among_ranks(thread, block, grid.threads, grid.blocks, rank, grid.ranks);
        for (std::size_t at = first_vector(worker, unroll); at < vectors; at += vector_stride(worker, unroll))
          for (unsigned row = 0; row < unroll; ++row)
            if (at + row * kWarpThreads < vectors) ++times[at + row * kWarpThreads];
      }
  return times;
}

}  // namespace

TEST_CASE("split_by_vectors: vectors are aligned on both sides, and every element is covered once") {
  for (const unsigned bytes : {1u, 2u, 4u, 8u})
    for (std::size_t from = 0; from < 2 * kVectorBytes; from += bytes)
      for (std::size_t to = 0; to < 2 * kVectorBytes; to += bytes)
        for (std::size_t count = 0; count < 80; ++count) {
          const VectorRange range = split_by_vectors(from, to, count, bytes);
          REQUIRE(range.head + range.vectors * (kVectorBytes / bytes) + range.tail == count);
          if (range.vectors > 0) {
            REQUIRE((from + range.head * bytes) % kVectorBytes == 0);
            REQUIRE((to + range.head * bytes) % kVectorBytes == 0);
          }
          // As many vectors as fit.
          if (from % kVectorBytes == to % kVectorBytes) {
            REQUIRE(range.head < kVectorBytes / bytes);
            REQUIRE(range.tail < kVectorBytes / bytes);
          } else {
            REQUIRE(range.vectors == 0);
          }
        }
}

TEST_CASE("worker_among_ranks: every thread of every rank has a unique index, consecutive in a warp") {
  for (const Grid& grid : kGrids) {
    std::vector<int> times(std::size_t{grid.threads} * grid.blocks * static_cast<unsigned>(grid.ranks));
    for (int rank = 0; rank < grid.ranks; ++rank)
      for (unsigned block = 0; block < grid.blocks; ++block)
        for (unsigned thread = 0; thread < grid.threads; ++thread) {
          const Worker worker = worker_among_ranks(thread, block, grid.threads, grid.blocks, rank, grid.ranks);
          REQUIRE(worker.count == times.size());
          REQUIRE(worker.index < times.size());
          REQUIRE(worker.index % kWarpThreads == thread % kWarpThreads);
          ++times[worker.index];
        }
    CHECK(std::ranges::count(times, 1) == static_cast<std::ptrdiff_t>(times.size()));
  }
}

TEST_CASE("worker_in_rank: like worker_among_ranks with one rank") {
  for (const Grid& grid : kGrids)
    for (unsigned block = 0; block < grid.blocks; ++block)
      for (unsigned thread = 0; thread < grid.threads; ++thread) {
        const Worker one = worker_in_rank(thread, block, grid.threads, grid.blocks);
        const Worker all = worker_among_ranks(thread, block, grid.threads, grid.blocks, 0, 1);
        CHECK(one.index == all.index);
        CHECK(one.count == all.count);
      }
}

TEST_CASE("interleaved_worker_in_rank: every thread has a unique index, neighboring warps are in different blocks") {
  for (const Grid& grid : kGrids) {
    std::vector<int> times(std::size_t{grid.threads} * grid.blocks);
    for (unsigned block = 0; block < grid.blocks; ++block)
      for (unsigned thread = 0; thread < grid.threads; ++thread) {
        const Worker worker = interleaved_worker_in_rank(thread, block, grid.threads, grid.blocks);
        REQUIRE(worker.count == times.size());
        REQUIRE(worker.index < times.size());
        CHECK(worker.index % kWarpThreads == thread % kWarpThreads);
        CHECK(worker.index / kWarpThreads % grid.blocks == block);
        ++times[worker.index];
      }
    CHECK(std::ranges::count(times, 1) == static_cast<std::ptrdiff_t>(times.size()));
  }
}

TEST_CASE("first_vector and vector_stride: every vector is taken once, whatever their number") {
  for (const Grid& grid : kGrids)
    for (const unsigned unroll : {1u, 4u, 8u})
      for (const std::size_t vectors : {std::size_t{0}, std::size_t{1}, std::size_t{31}, std::size_t{32},
                                        std::size_t{257}, std::size_t{4096}, std::size_t{9999}}) {
        const std::vector<int> times = taken(grid, vectors, unroll);
        CHECK(std::ranges::count(times, 1) == static_cast<std::ptrdiff_t>(vectors));
      }
}

TEST_CASE("interleaved_worker_among_ranks: every thread has a unique index, neighboring warps are on other ranks") {
  for (const Grid& grid : kGrids) {
    std::vector<int> times(std::size_t{grid.threads} * grid.blocks * static_cast<unsigned>(grid.ranks));
    for (int rank = 0; rank < grid.ranks; ++rank)
      for (unsigned block = 0; block < grid.blocks; ++block)
        for (unsigned thread = 0; thread < grid.threads; ++thread) {
          const Worker worker =
              interleaved_worker_among_ranks(thread, block, grid.threads, grid.blocks, rank, grid.ranks);
          REQUIRE(worker.count == times.size());
          REQUIRE(worker.index < times.size());
          CHECK(worker.index % kWarpThreads == thread % kWarpThreads);
          CHECK(worker.index / kWarpThreads % static_cast<unsigned>(grid.ranks) == static_cast<unsigned>(rank));
          ++times[worker.index];
        }
    CHECK(std::ranges::count(times, 1) == static_cast<std::ptrdiff_t>(times.size()));
  }
}

TEST_CASE("vectors_in_full_strides: a multiple of the stride, with less than one stride left") {
  for (const std::size_t vectors : {std::size_t{0}, std::size_t{511}, std::size_t{512}, std::size_t{1300}}) {
    const Worker worker{.index = 5, .count = 64};
    const std::size_t whole = vectors_in_full_strides(vectors, worker, 8);
    CHECK(whole % 512 == 0);
    CHECK(whole <= vectors);
    CHECK(vectors - whole < 512);
  }
}

TEST_CASE("peer_of_step: each step has another peer, itself last, and no peer is used twice") {
  for (const int ranks : {1, 2, 3, 8}) {
    for (int step = 0; step < ranks; ++step) {
      std::vector<int> uses(static_cast<std::size_t>(ranks));
      for (int rank = 0; rank < ranks; ++rank) {
        const int peer = peer_of_step(rank, step, ranks);
        ++uses[static_cast<std::size_t>(peer)];
        CHECK((step == ranks - 1) == (peer == rank));
      }
      CHECK(std::ranges::count(uses, 1) == ranks);
    }
  }
}

TEST_CASE("sending_block: the block of the thread that sends to a peer") {
  for (const Grid& grid : kGrids) {
    for (unsigned block = 0; block < grid.blocks; ++block)
      for (unsigned thread = 0; thread < grid.threads; ++thread) {
        const Worker worker = worker_in_rank(thread, block, grid.threads, grid.blocks);
        for (std::size_t peer = worker.index; peer < 1000; peer += worker.count)
          CHECK(sending_block(static_cast<int>(peer), grid.threads, grid.blocks) == block);
      }
  }
}
