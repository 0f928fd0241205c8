// Tests that the model finds injected faults of the protocol.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "model/explore.hpp"

using namespace busbw::fastpath::model;

namespace {

constexpr std::uint64_t kMaxStates = 1000000;

/// Checks that the program is correct without the fault, and that all orders and random orders find the fault. `words`
/// is a part of the failure message.
void finds(const Program& program, const Faults& faults, const std::string& words) {
  CAPTURE(program.text());
  const Explored right = explore_all(program, {}, kMaxStates);
  CHECK_MESSAGE(right.failure.empty(), right.failure);
  CHECK(right.ends == 1);
  const Explored wrong = explore_all(program, faults, kMaxStates);
  CAPTURE(wrong.failure);
  CHECK_FALSE(wrong.failure.empty());
  CHECK(wrong.failure.find(words) != std::string::npos);
  const Explored at_random = explore_random(program, faults, 1, 2000);
  CHECK_FALSE(at_random.failure.empty());
  CHECK(at_random.ends < 2000);
}

Kernel kernel(Task task, int blocks, int steps) { return {task, blocks, 1, steps, 0, 1}; }

constexpr const char* kNotInside = "while it is not inside kernel 0";
constexpr const char* kNotWritten = "ended without the right value";

/// Checks a fault that lets ranks leave direct kernels before the other ranks have finished reading and writing.
void finds_late(int blocks, const Faults& faults) {
  for (const Task task : {Task::all_reduce_direct, Task::all_gather_direct})
    finds({2, {kernel(task, blocks, 1)}, 0}, faults, kNotWritten);
  finds({2, {kernel(Task::reduce_scatter_direct, blocks, 1)}, 0}, faults, kNotInside);
}

}  // namespace

TEST_CASE("even and odd tags need separate slots") {
  Faults faults;
  faults.one_turn = true;
  finds({2, {kernel(Task::all_gather, 1, 2)}, 0}, faults, "used again too early");
}

TEST_CASE("the halves of two_shot need separate slots") {
  Faults faults;
  faults.one_region = true;
  finds({2, {kernel(Task::all_reduce_two_shot, 1, 1)}, 0}, faults, "used again too early");
}

TEST_CASE("the lines of a batch need separate slots") {
  Faults faults;
  faults.one_slot_of_batch = true;
  finds({2, {{Task::all_gather, 1, 1, 1, 0, 2}}, 0}, faults, "used again too early");
}

TEST_CASE("a broadcast in which only the root sends overruns its readers") {
  Faults faults;
  faults.quiet_ranks = true;
  finds({2, {kernel(Task::broadcast_one_shot, 1, 3)}, 0}, faults,
        "used again too early: tag 3 is written while the cell with tag 1");
}

TEST_CASE("threads without cells must take part in the last step") {
  Faults faults;
  faults.idle_agents_rest = true;
  finds({2, {kernel(Task::all_gather, 2, 2), kernel(Task::all_gather, 2, 2)}, 0}, faults,
        "used again too early: tag 3 is written while the cell with tag 1");
}

TEST_CASE("a kernel must advance the tags by its number of steps") {
  Faults faults;
  faults.tags_of_kernels = true;
  finds({2, {kernel(Task::all_gather, 1, 2), kernel(Task::all_gather, 1, 1)}, 0}, faults, "tag 2");
}

TEST_CASE("cells that are reduced in the order of arrival give different results on the ranks") {
  Faults faults;
  faults.order_of_arrival = true;
  finds({3, {kernel(Task::all_reduce_one_shot, 1, 1)}, 0}, faults, "gave other cells than it must");
}

TEST_CASE("one block must not write the words of blocks that may not have begun") {
  Faults faults;
  faults.words_by_first = true;
  finds({2, {kernel(Task::all_gather, 2, 1)}, 0}, faults, "a deadlock");
}

TEST_CASE("blocks of a small kernel must write the words of all blocks, because the next kernel may have more") {
  Faults faults;
  faults.own_words_only = true;
  finds({2, {{Task::all_gather, 1, 2, 1, 0, 1}, {Task::all_gather, 2, 1, 1, 0, 1}}, 0}, faults, "tag 1");
}

TEST_CASE("a kernel must wait for the end of the previous kernel") {
  Faults faults;
  faults.kernels_overlap = true;
  finds({2, {kernel(Task::all_gather, 2, 1), kernel(Task::all_gather, 1, 1), kernel(Task::all_gather, 2, 1)}, 0},
        faults, "used again too early");
}

TEST_CASE("the protocol needs lines that arrive as a whole: a tag before its data is read too early") {
  Faults faults;
  faults.tag_before_data = true;
  finds({2, {kernel(Task::all_gather, 1, 1)}, 0}, faults, "a wrong cell is taken");
}

TEST_CASE("the protocol needs lines that are read as a whole: data before the tag are read too early") {
  Faults faults;
  faults.data_before_tag = true;
  finds({2, {kernel(Task::all_gather, 1, 1)}, 0}, faults, "a wrong cell is taken");
  finds({2, {kernel(Task::all_reduce_two_shot, 1, 2)}, 0}, faults, "a wrong cell is taken");
}

TEST_CASE("blocks that begin in any order need room for all of them") {
  Faults faults;
  faults.blocks_in_any_order = true;
  finds({2, {kernel(Task::all_gather, 2, 1)}, 1}, faults, "a deadlock");
}

TEST_CASE("direct kernels need a barrier before they access buffers that may still belong to the program") {
  Faults faults;
  faults.no_first_barrier = true;
  for (const Task task : kDirectTasks) finds({2, {kernel(task, 1, 1)}, 0}, faults, kNotInside);
}

TEST_CASE("direct kernels need a barrier before they return the buffers to the program") {
  Faults faults;
  faults.no_second_barrier = true;
  finds_late(1, faults);
}

TEST_CASE("the lines of a barrier must not overtake earlier writes") {
  Faults faults;
  faults.no_fence = true;
  for (const Task task : {Task::all_reduce_direct, Task::all_gather_direct})
    finds({2, {kernel(task, 1, 1)}, 0}, faults, kNotWritten);
}

TEST_CASE("a barrier includes all threads of a block") {
  Faults faults;
  faults.leader_barriers_alone = true;
  for (const Task task : kDirectTasks) finds({2, {{task, 1, 2, 1, 0, 1}}, 0}, faults, kNotInside);
}

TEST_CASE("every block takes part in the barriers") {
  Faults faults;
  faults.only_first_block_barriers = true;
  finds_late(2, faults);
}

TEST_CASE("the two barriers of a kernel need different tags") {
  Faults faults;
  faults.one_barrier_tag = true;
  for (const Task task : kDirectTasks) finds({2, {kernel(task, 1, 1)}, 0}, faults, "used again too early");
}

TEST_CASE("a direct kernel must advance the tags by its two barriers") {
  Faults faults;
  faults.tags_of_kernels = true;
  finds({2, {kernel(Task::all_gather_direct, 1, 1), kernel(Task::all_gather, 1, 1)}, 0}, faults, "tag 2");
}

TEST_CASE("an in-place direct all-reduce may read only the slice that its own rank overwrites") {
  Faults faults;
  faults.reduces_for_itself = true;
  finds({2, {{Task::all_reduce_direct, 1, 1, 1, 0, 1, true}}, 0}, faults, kNotWritten);
  const Explored out_of_place =
      explore_all({2, {{Task::all_reduce_direct, 1, 1, 1, 0, 1, false}}, 0}, faults, kMaxStates);
  CHECK_MESSAGE(out_of_place.failure.empty(), out_of_place.failure);
}

TEST_CASE("random orders find the faults also in large programs") {
  std::vector<Faults> all(8);
  all[0].one_turn = true;
  all[1].quiet_ranks = true;
  all[2].words_by_first = true;
  all[3].kernels_overlap = true;
  all[4].no_first_barrier = true;
  all[5].no_second_barrier = true;
  all[6].no_fence = true;
  all[7].only_first_block_barriers = true;
  Program program{5, {}, 0};
  for (int i = 0; i < 12; ++i)
    program.kernels.push_back({kTasks[i % 10], 1 + i % 4, 1 + i % 2, 1 + i % 5, i % 5, 1 + i % 3});
  const Explored right = explore_random(program, {}, 1, 20);
  CHECK_MESSAGE(right.failure.empty(), right.failure);
  for (const Faults& faults : all) CHECK_FALSE(explore_random(program, faults, 1, 200).failure.empty());
}
