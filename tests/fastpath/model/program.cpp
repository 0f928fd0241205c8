#include "program.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace busbw::fastpath::model {
namespace {

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15U)) * 0xbf58476d1ce4e5b9U;
  x ^= x >> 29;
  x *= 0x94d049bb133111ebU;
  return x ^ (x >> 32);
}

/// Returns a value of a rank's input.
std::uint64_t input(int kernel, int rank, int slice, std::int64_t index) {
  const std::uint64_t who = static_cast<std::uint64_t>(kernel) * 64 + static_cast<std::uint64_t>(rank);
  return mixed(mixed(who, static_cast<std::uint64_t>(slice)), static_cast<std::uint64_t>(index));
}

/// Reduction operator with a result that depends on the order.
std::uint64_t reduced(std::uint64_t so_far, std::uint64_t next) { return mixed(so_far * 3, next); }

std::uint64_t reduced_input(const Program& program, int kernel, int slice, std::int64_t index) {
  std::uint64_t value = input(kernel, 0, slice, index);
  for (int rank = 1; rank < program.ranks; ++rank) value = reduced(value, input(kernel, rank, slice, index));
  return value;
}

}  // namespace

bool has_two_shots(Task task) { return task == Task::all_reduce_two_shot || task == Task::broadcast_two_shot; }

bool is_direct(Task task) {
  return task == Task::all_reduce_direct || task == Task::all_gather_direct || task == Task::reduce_scatter_direct;
}

const char* name_of(Task task) {
  switch (task) {
    case Task::all_reduce_one_shot: return "all_reduce_one_shot";
    case Task::all_reduce_two_shot: return "all_reduce_two_shot";
    case Task::all_gather: return "all_gather";
    case Task::reduce_scatter: return "reduce_scatter";
    case Task::all_to_all: return "all_to_all";
    case Task::broadcast_one_shot: return "broadcast_one_shot";
    case Task::broadcast_two_shot: return "broadcast_two_shot";
    case Task::all_reduce_direct: return "all_reduce_direct";
    case Task::all_gather_direct: return "all_gather_direct";
    case Task::reduce_scatter_direct: return "reduce_scatter_direct";
  }
  return "?";
}

int Program::max_agents() const {
  int most = 1;
  for (const Kernel& kernel : kernels) most = std::max(most, kernel.agents());
  return most;
}

int Program::max_cells() const {
  int most = 1;
  for (const Kernel& kernel : kernels) most = std::max(most, kernel.cells());
  return most;
}

int Program::max_stops() const {
  int most = 1;
  for (const Kernel& kernel : kernels)
    // A barrier has two waits: for the block, then for the ranks.
    most = std::max(most, is_direct(kernel.task) ? 2 * kDirectSteps + ranks * kernel.batch
                                                 : kernel.steps * kernel.batch * kRegions);
  return most;
}

std::string Program::text() const {
  std::string all = fmt::format("{} ranks", ranks);
  if (room > 0) all += fmt::format(" with room for {} blocks", room);
  all += ':';
  for (const Kernel& kernel : kernels)
    all += fmt::format(" {}({} x {} agents, {} steps of {}, root {}{})", name_of(kernel.task), kernel.blocks,
                       kernel.agents_of_block, kernel.steps, kernel.batch, kernel.root,
                       kernel.in_place ? ", in place" : "");
  return all;
}

Cells expected_output(const Program& program, int kernel, int rank, std::int64_t index) {
  const int root = program.kernels[static_cast<std::size_t>(kernel)].root;
  Cells output;
  const auto holds = [&](int slice, std::uint64_t value) { output.push_back({{slice, index}, value}); };
  switch (program.kernels[static_cast<std::size_t>(kernel)].task) {
    case Task::all_reduce_one_shot: holds(0, reduced_input(program, kernel, 0, index)); break;
    case Task::reduce_scatter:
    case Task::reduce_scatter_direct: holds(0, reduced_input(program, kernel, rank, index)); break;
    case Task::broadcast_one_shot: holds(0, input(kernel, root, 0, index)); break;
    case Task::all_reduce_two_shot:
    case Task::all_reduce_direct:
      for (int slice = 0; slice < program.ranks; ++slice) holds(slice, reduced_input(program, kernel, slice, index));
      break;
    case Task::all_gather:
    case Task::all_gather_direct:
      for (int slice = 0; slice < program.ranks; ++slice) holds(slice, input(kernel, slice, 0, index));
      break;
    case Task::all_to_all:
      for (int slice = 0; slice < program.ranks; ++slice) holds(slice, input(kernel, slice, rank, index));
      break;
    case Task::broadcast_two_shot:
      for (int slice = 0; slice < program.ranks; ++slice) holds(slice, input(kernel, root, slice, index));
      break;
  }
  return output;
}

Cells input_of(const Program& program, int kernel, int rank, std::int64_t index) {
  const bool has_one = program.kernels[static_cast<std::size_t>(kernel)].task == Task::all_gather_direct;
  Cells cells;
  for (int slice = 0; slice < (has_one ? 1 : program.ranks); ++slice)
    cells.push_back({{slice, index}, input(kernel, rank, slice, index)});
  return cells;
}

bool TaskWork::has_input() const {
  const bool broadcast = kernel().task == Task::broadcast_one_shot || kernel().task == Task::broadcast_two_shot;
  return !broadcast || rank_ == kernel().root;
}

Cell TaskWork::input_for(int peer, std::int64_t index) const {
  const Task task = kernel().task;
  const bool same_for_all =
      task == Task::all_reduce_one_shot || task == Task::all_gather || task == Task::broadcast_one_shot;
  return {input(kernel_, rank_, same_for_all ? 0 : peer, index), 0};
}

void TaskWork::load(std::int64_t index, Cell (&cells)[kMaxModelRanks]) const {
  for (int peer = 0; peer < program_.ranks; ++peer)
    if (has_input() && peer != rank_) cells[peer] = input_for(peer, index);
}

void TaskWork::load_own(std::int64_t index, Cell (&cells)[kMaxModelRanks]) const {
  if (has_input()) cells[rank_] = input_for(rank_, index);
}

Cell TaskWork::reduce(const Cell (&cells)[kMaxModelRanks]) const {
  if (kernel().task == Task::broadcast_one_shot || kernel().task == Task::broadcast_two_shot)
    return cells[kernel().root];
  Cell result = cells[0];
  for (int peer = 1; peer < program_.ranks; ++peer) result.low = reduced(result.low, cells[peer].low);
  return result;
}

void TaskWork::store(std::int64_t index, const Cell (&cells)[kMaxModelRanks]) {
  if (kernel().task == Task::all_gather || kernel().task == Task::all_to_all) {
    keep(index, cells[rank_]);
    store_others(index, cells);
  } else {
    output_.push_back({{0, index}, reduce(cells).low});
  }
}

void TaskWork::keep(std::int64_t index, const Cell& cell) { output_.push_back({{rank_, index}, cell.low}); }

void TaskWork::store_others(std::int64_t index, const Cell (&cells)[kMaxModelRanks]) {
  for (int peer = 0; peer < program_.ranks; ++peer)
    if (peer != rank_) output_.push_back({{peer, index}, cells[peer].low});
}

}  // namespace busbw::fastpath::model
