// Tests of the schedule `direct` on the model, alone and together with the others, in every order of small programs.
// test_schedule.cpp tests random orders of larger programs with all tasks.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "model/explore.hpp"

using namespace busbw::fastpath::model;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kDirectProgramStride = 8;
#else
constexpr std::size_t kDirectProgramStride = 1;
#endif

/// Returns direct kernels with `batch` cells per agent, out of place and in place.
std::vector<Kernel> direct_kernels(int blocks, int agents_of_block, int batch) {
  std::vector<Kernel> all;
  for (const Task task : kDirectTasks)
    for (const bool in_place : {false, true}) all.push_back({task, blocks, agents_of_block, 1, 0, batch, in_place});
  return all;
}

void explore(const std::vector<Program>& programs) {
  Explored all;
  std::uint64_t explored = 0;
  for (std::size_t i = 0; i < programs.size() && all.failure.empty(); i += kDirectProgramStride) {
    all += explore_all(programs[i], {}, 2000000);
    ++explored;
  }
  CHECK_MESSAGE(all.failure.empty(), all.failure);
  CHECK(all.ends == explored);  // all orders end in the same state
  MESSAGE(explored << " programs: " << all.states << " states, " << all.moves << " moves");
}

/// Explores every sequence of a number of these kernels with at least one direct kernel.
std::vector<Program> sequences(int ranks, const std::vector<Kernel>& kernels, int length) {
  std::vector<Program> all = {{ranks, {}, 0}};
  for (int i = 0; i < length; ++i) {
    std::vector<Program> longer;
    for (const Program& program : all)
      for (const Kernel& kernel : kernels) {
        longer.push_back(program);
        longer.back().kernels.push_back(kernel);
      }
    all = std::move(longer);
  }
  std::erase_if(all, [](const Program& program) {
    return std::ranges::none_of(program.kernels, [](const Kernel& kernel) { return is_direct(kernel.task); });
  });
  return all;
}

/// Fabric that is aborted after a number of barriers.
struct AbortedBarriers {
  int meetings_left = 0;
  std::vector<std::uint64_t> tags;

  bool barrier(std::uint64_t tag) {
    tags.push_back(tag);
    return meetings_left-- > 0;
  }
};

struct CountedMoves {
  int moves = 0;
  void move(AbortedBarriers&) { ++moves; }
};

}  // namespace

TEST_CASE(
    "every order of two ranks: one direct kernel of one or two agents, in one block or two, in and out of place") {
  std::vector<Program> programs;
  for (const auto& [blocks, agents] : {std::pair{1, 1}, {1, 2}, {2, 1}})
    for (const int batch : {1, 2})
      for (const Kernel& kernel : direct_kernels(blocks, agents, batch)) programs.push_back({2, {kernel}, 0});
  for (const Kernel& kernel : direct_kernels(2, 2, 1))
    if (kernel.in_place) programs.push_back({2, {kernel}, 0});
  explore(programs);
}

TEST_CASE("every order of two ranks: three kernels of one agent, direct and others") {
  std::vector<Kernel> kernels = direct_kernels(1, 1, 1);
  kernels.push_back({Task::all_gather, 1, 1, 1, 0, 1});
  kernels.push_back({Task::all_reduce_one_shot, 1, 1, 2, 0, 1});
  kernels.push_back({Task::broadcast_two_shot, 1, 1, 1, 1, 1});
  explore(sequences(2, kernels, 3));
}

TEST_CASE("every order of two ranks: direct kernels and others with other grids after each other") {
  std::vector<Kernel> kernels;
  for (const auto& [blocks, agents] : {std::pair{1, 1}, {1, 2}, {2, 1}}) {
    kernels.push_back({Task::all_reduce_direct, blocks, agents, 1, 0, 1, true});
    kernels.push_back({Task::all_reduce_one_shot, blocks, agents, 2, 0, 1});
  }
  kernels.push_back({Task::all_to_all, 1, 1, 1, 0, 2});
  explore(sequences(2, kernels, 2));
}

TEST_CASE("every order of two ranks: three kernels of one block or two, direct and others") {
  std::vector<Kernel> kernels;
  for (const int blocks : {1, 2}) {
    kernels.push_back({Task::all_gather_direct, blocks});
    kernels.push_back({Task::all_reduce_one_shot, blocks});
  }
  explore(sequences(2, kernels, 3));
}

TEST_CASE("every order of three ranks: direct kernels of one block, alone and beside others") {
  std::vector<Program> programs;
  for (const Kernel& kernel : direct_kernels(1, 1, 1)) programs.push_back({3, {kernel}, 0});
  programs.push_back({3, {{Task::all_reduce_direct}, {Task::all_gather}}, 0});
  explore(programs);
}

TEST_CASE("every order of two ranks without room for all blocks of direct kernels") {
  std::vector<Program> programs;
  for (const int room : {1, 2})
    for (const Task task : kDirectTasks)
      programs.push_back({2, {{task, 3, 1, 1, 0, 1, true}, {Task::all_gather, 2, 1, 1, 0, 1}}, room});
  explore(programs);
}

TEST_CASE("a direct kernel that is aborted in its first barrier moves nothing") {
  for (const int meetings : {0, 1, 2}) {
    AbortedBarriers fabric{meetings, {}};
    CountedMoves work;
    busbw::fastpath::direct(fabric, work, 7);
    CHECK(work.moves == (meetings == 0 ? 0 : 1));
    CHECK(fabric.tags == (meetings == 0 ? std::vector<std::uint64_t>{7} : std::vector<std::uint64_t>{7, 8}));
  }
}
