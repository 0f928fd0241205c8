// Tests of the schedules on the model of model/machine.hpp: every order for small programs, random orders for larger
// ones.
#include "fastpath/schedule/schedule.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <utility>
#include <vector>

#include "model/explore.hpp"

using namespace busbw::fastpath;
using namespace busbw::fastpath::model;

namespace {

// With a sanitizer every move is ten times slower. Its findings do not depend on the program, so fewer programs run.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kProgramStride = 16;
#else
constexpr std::size_t kProgramStride = 1;
#endif

/// Properties of a kernel that matter to the protocol.
struct Shape {
  bool two_shots = false;
  int blocks = 1;
  int agents_of_block = 1;
  int steps = 1;
  int batch = 1;
};

/// Returns a kernel of that shape. `number` selects the task.
Kernel kernel_of(const Shape& shape, std::size_t number, int ranks) {
  constexpr Task kOneShot[] = {Task::all_gather, Task::all_reduce_one_shot, Task::broadcast_one_shot,
                               Task::reduce_scatter, Task::all_to_all};
  constexpr Task kTwoShot[] = {Task::all_reduce_two_shot, Task::broadcast_two_shot};
  const Task task = shape.two_shots ? kTwoShot[number % 2] : kOneShot[number % 5];
  return {task, shape.blocks, shape.agents_of_block, shape.steps, static_cast<int>(number) % ranks, shape.batch};
}

std::vector<Shape> shapes_of(const std::vector<std::pair<int, int>>& grids, int max_steps, int max_batch = 1) {
  std::vector<Shape> shapes;
  for (const auto& [blocks, agents] : grids)
    for (int steps = 1; steps <= max_steps; ++steps)
      for (int batch = 1; batch <= max_batch; ++batch)
        for (const bool two_shots : {false, true}) shapes.push_back({two_shots, blocks, agents, steps, batch});
  return shapes;
}

/// Explores every sequence of `kernels` kernels of these shapes, in every order of moves.
Explored explore_sequences(const std::vector<Shape>& shapes, int ranks, std::size_t kernels) {
  std::size_t sequences = 1;
  for (std::size_t i = 0; i < kernels; ++i) sequences *= shapes.size();
  Explored all;
  std::size_t programs = 0;
  for (std::size_t sequence = 0; sequence < sequences; sequence += kProgramStride) {
    Program program{ranks, {}, 0};
    std::size_t rest = sequence;
    for (std::size_t i = 0; i < kernels; ++i) {
      program.kernels.push_back(kernel_of(shapes[rest % shapes.size()], sequence + i, ranks));
      rest /= shapes.size();
    }
    all += explore_all(program, {}, 1000000);
    ++programs;
    if (!all.failure.empty()) break;
  }
  CHECK_MESSAGE(all.failure.empty(), all.failure);
  CHECK(all.ends == programs);  // all orders end in the same state
  MESSAGE(programs << " programs of " << ranks << " ranks: " << all.states << " states, " << all.moves << " moves");
  return all;
}

Program random_program(std::mt19937_64& engine, int ranks, int kernels) {
  const auto below = [&](int end) { return static_cast<int>(engine() % static_cast<std::uint64_t>(end)); };
  Program program{ranks, {}, below(4)};
  for (int i = 0; i < kernels; ++i)
    program.kernels.push_back({kTasks[below(static_cast<int>(std::size(kTasks)))], 1 + below(4), 1 + below(2),
                               1 + below(4), below(ranks), 1 + below(3), below(2) == 1});
  return program;
}

/// Fabric that is aborted at its n-th take.
struct AbortedTakes {
  static constexpr int kMaxRanks = 2;
  int takes_left = 0;
  int cells = 1;
  int puts = 0;

  int rank() const { return 0; }
  int ranks() const { return 2; }
  int thread() const { return 0; }
  int threads() const { return 1; }
  int batch() const { return cells; }
  void put(int, int, int, std::uint64_t, const Cell&) { ++puts; }
  bool take(int, int, std::uint64_t, Cell (&)[2]) { return takes_left-- > 0; }
};

struct CountingWork {
  int stored = 0;
  int kept = 0;

  void load(std::int64_t, Cell (&)[2]) {}
  void load_own(std::int64_t, Cell (&)[2]) {}
  Cell reduce(const Cell (&)[2]) { return {}; }
  void store(std::int64_t, const Cell (&)[2]) { ++stored; }
  void keep(std::int64_t, const Cell&) { ++kept; }
  void store_others(std::int64_t, const Cell (&)[2]) { ++stored; }
};

}  // namespace

TEST_CASE("every order of two ranks: three kernels of one agent and up to three steps") {
  explore_sequences(shapes_of({{1, 1}}, 3), 2, 3);
}

TEST_CASE("every order of two ranks: two kernels of one or two agents, in one block or two, and up to three steps") {
  explore_sequences(shapes_of({{1, 1}, {1, 2}, {2, 1}}, 3), 2, 2);
}

TEST_CASE("every order of two ranks: three kernels with other grids after each other") {
  explore_sequences(shapes_of({{1, 1}, {2, 1}}, 2), 2, 3);
}

TEST_CASE("every order of three ranks: three kernels of one agent") { explore_sequences(shapes_of({{1, 1}}, 2), 3, 3); }

TEST_CASE("every order of three ranks: two blocks, two lines, two blocks and then one and the other way round") {
  const std::vector<Shape> wide = shapes_of({{2, 1}}, 1);
  const std::vector<Shape> narrow = shapes_of({{1, 1}}, 1);
  std::vector<Program> programs = {{3, {kernel_of(wide[0], 0, 3)}, 0}};
  if (kProgramStride == 1) {
    programs.push_back({3, {kernel_of(wide[0], 0, 3), kernel_of(narrow[1], 1, 3)}, 0});
    programs.push_back({3, {kernel_of(narrow[1], 0, 3), kernel_of(wide[0], 1, 3)}, 0});
    for (const bool two_shots : {false, true}) programs.push_back({3, {kernel_of({two_shots, 1, 1, 1, 2}, 0, 3)}, 0});
  }
  Explored all;
  for (const Program& program : programs) all += explore_all(program, {}, 1000000);
  CHECK_MESSAGE(all.failure.empty(), all.failure);
  CHECK(all.ends == programs.size());
  MESSAGE(all.states << " states, " << all.moves << " moves");
}

TEST_CASE("every order of two ranks without room for all blocks, which begin in the order of their numbers") {
  Explored all;
  std::uint64_t programs = 0;
  for (const int room : {1, 2})
    for (const bool two_shots : {false, true}) {
      const Program program{2, {kernel_of({two_shots, 3, 1, 1}, 0, 2), kernel_of({!two_shots, 2, 1, 1}, 1, 2)}, room};
      all += explore_all(program, {}, 1000000);
      ++programs;
    }
  CHECK_MESSAGE(all.failure.empty(), all.failure);
  CHECK(all.ends == programs);
  MESSAGE(all.states << " states, " << all.moves << " moves");
}

TEST_CASE("every order of two ranks: two kernels of one agent, up to two steps and three lines in each") {
  explore_sequences(shapes_of({{1, 1}}, 2, 3), 2, 2);
}

TEST_CASE("every order of two ranks: a kernel of two lines in a step among others of two agents") {
  std::vector<Shape> shapes = shapes_of({{2, 1}}, 1);
  for (const bool two_shots : {false, true}) shapes.push_back({two_shots, 1, 1, 2, 2});
  explore_sequences(shapes, 2, 3);
}

TEST_CASE("random orders of two to eight ranks: twenty kernels of any kind on up to four blocks") {
  for (int ranks = 2; ranks <= 8; ++ranks) {
    std::mt19937_64 engine(static_cast<std::uint64_t>(ranks));
    Explored all;
    const int programs = kProgramStride > 1 ? 1 : 120 / ranks;
    for (int i = 0; i < programs && all.failure.empty(); ++i)
      all += explore_random(random_program(engine, ranks, 20), {}, engine(), 4);
    CHECK_MESSAGE(all.failure.empty(), all.failure);
    CHECK(all.ends == static_cast<std::uint64_t>(4 * programs));
    MESSAGE(ranks << " ranks: " << programs << " programs, " << all.ends << " ways, " << all.moves << " moves");
  }
}

TEST_CASE("a schedule that is aborted while it waits stores and sends nothing afterwards") {
  for (const int batch : {1, 3}) {
    for (const int takes : {0, 1, 4}) {
      AbortedTakes fabric{takes, batch};
      CountingWork work;
      exchange(fabric, work, 1, 100);
      CHECK(work.stored == takes);
      CHECK(fabric.puts == batch * (takes / batch + 1));
    }
    for (const int takes : {0, 1, 4, 5, 7}) {
      AbortedTakes fabric{takes, batch};
      CountingWork work;
      two_shot(fabric, work, 1, 100);
      const int steps = takes / (2 * batch);
      const int of_step = takes % (2 * batch);
      CHECK(work.kept == steps * batch + std::min(of_step, batch));
      CHECK(work.stored == steps * batch + std::max(of_step - batch, 0));
      CHECK(fabric.puts == batch * (steps + 1) + work.kept);
    }
  }
}
