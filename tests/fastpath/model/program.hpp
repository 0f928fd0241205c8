#pragma once
// What the model runs: the kernels of a job's ranks, one after another, and what each rank must have at the end of
// each.
//
// A cell is one number here. Numbers are mixed so that no two cells are equal and a reduction in another order, or of
// other cells, comes to another number: ranks that agree have done the same.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fastpath/schedule/schedule.hpp"

namespace busbw::fastpath::model {

inline constexpr int kMaxModelRanks = 8;
inline constexpr int kAllRanks = -1;

enum class Task {
  all_reduce_one_shot,
  all_reduce_two_shot,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast_one_shot,
  broadcast_two_shot,
  all_reduce_direct,
  all_gather_direct,
  reduce_scatter_direct
};
inline constexpr Task kTasks[] = {Task::all_reduce_one_shot,  Task::all_reduce_two_shot, Task::all_gather,
                                  Task::reduce_scatter,       Task::all_to_all,          Task::broadcast_one_shot,
                                  Task::broadcast_two_shot,   Task::all_reduce_direct,   Task::all_gather_direct,
                                  Task::reduce_scatter_direct};

/// Whether a task is run by `two_shot`, or by `direct`; all others are by `exchange`.
bool has_two_shots(Task task);
bool is_direct(Task task);
const char* name_of(Task task);

/// One operation. An agent stands for the threads that write one line together.
struct Kernel {
  Task task = Task::all_gather;
  int blocks = 1;
  int agents_of_block = 1;
  int steps = 1;
  int root = 0;
  int batch = 1;          ///< lines of an agent in a step; what an agent moves in a direct one
  bool in_place = false;  ///< matters to direct ones, whose buffers are in memory

  int agents() const { return blocks * agents_of_block; }
  int cells() const { return agents() * batch; }  ///< of a step
  /// Tags that it uses up.
  int tags() const { return is_direct(task) ? kDirectSteps : steps; }
};

struct Program {
  int ranks = 2;
  std::vector<Kernel> kernels;
  /// So many blocks of a kernel at a time on a GPU, which begin in the order of their numbers; 0: there is room for
  /// all.
  int room = 0;

  int max_agents() const;
  int max_cells() const;  ///< of a step
  int max_stops() const;  ///< of an agent: how often it waits
  /// As a failure prints it.
  std::string text() const;
};

/// A place in a rank's input or output: a slice and an index within it.
using Place = std::pair<int, std::int64_t>;
/// Places, and what they hold.
using Cells = std::vector<std::pair<Place, std::uint64_t>>;

/// What a rank's kernel must write for the cell `index`: said without cells, lines and schedules.
Cells expected_output(const Program& program, int kernel, int rank, std::int64_t index);
/// The input of a rank's direct kernel, for the cell `index`.
Cells input_of(const Program& program, int kernel, int rank, std::int64_t index);

/// The task as schedule.hpp wants it, for one agent; keeps what it is given to store. It fills in no more cells than it
/// must.
class TaskWork {
 public:
  /// `reduces_for_itself`: in all_reduce_direct each rank reduces all slices, for itself alone.
  TaskWork(const Program& program, int kernel, int rank, bool reduces_for_itself)
      : program_(program), kernel_(kernel), rank_(rank), reduces_for_itself_(reduces_for_itself) {}

  void load(std::int64_t index, Cell (&cells)[kMaxModelRanks]) const;
  void load_own(std::int64_t index, Cell (&cells)[kMaxModelRanks]) const;
  Cell reduce(const Cell (&cells)[kMaxModelRanks]) const;
  void store(std::int64_t index, const Cell (&cells)[kMaxModelRanks]);
  void keep(std::int64_t index, const Cell& cell);
  void store_others(std::int64_t index, const Cell (&cells)[kMaxModelRanks]);
  /// The fabric reads a place of one rank's input, or of all, and writes a place of one rank's output, or of all.
  template <class Fabric>
  void move(Fabric& fabric) const;

  const Cells& output() const { return output_; }

 private:
  const Kernel& kernel() const { return program_.kernels[static_cast<std::size_t>(kernel_)]; }
  bool has_input() const;
  Cell input_for(int peer, std::int64_t index) const;

  const Program& program_;
  int kernel_;
  int rank_;
  bool reduces_for_itself_;
  Cells output_;
};

template <class Fabric>
void TaskWork::move(Fabric& fabric) const {
  const bool gathers = kernel().task == Task::all_gather_direct;
  const bool scatters = kernel().task == Task::reduce_scatter_direct;
  const int slices = reduces_for_itself_ ? program_.ranks : 1;
  for (std::int64_t index = fabric.thread(); index < kernel().cells(); index += fabric.threads())
    for (int i = 0; i < slices; ++i) {
      const int slice = reduces_for_itself_ ? i : rank_;
      Cell cells[kMaxModelRanks];
      if (!fabric.read({gathers ? 0 : slice, index}, gathers ? rank_ : kAllRanks, cells)) return;
      const Cell result = gathers ? cells[rank_] : reduce(cells);
      fabric.write({scatters ? 0 : slice, index}, scatters || reduces_for_itself_ ? rank_ : kAllRanks, result);
    }
}

}  // namespace busbw::fastpath::model
