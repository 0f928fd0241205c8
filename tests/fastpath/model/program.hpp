#pragma once
// Programs of the model: a sequence of kernels, and the expected output of each rank after each kernel.
//
// A cell is one number here. All cells differ, and a reduction in another order or of other cells gives another number.
// So equal results show that ranks have reduced the same cells in the same order.
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fastpath/schedule/schedule.hpp"

namespace busbw::fastpath::model {

inline constexpr int kMaxModelRanks = 8;
inline constexpr int kAllRanks = -1;

/// Returns a number that is not negative as an index of a container.
inline std::size_t to_index(int number) { return static_cast<std::size_t>(number); }

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
/// Tasks of the method `direct`.
inline constexpr Task kDirectTasks[] = {Task::all_reduce_direct, Task::all_gather_direct, Task::reduce_scatter_direct};

/// True if the task uses `two_shot`. Tasks with neither `two_shot` nor `direct` use `exchange`.
bool has_two_shots(Task task);
bool is_direct(Task task);
const char* name_of(Task task);

/// One operation. An agent represents the threads that write one line together.
struct Kernel {
  Task task = Task::all_gather;
  int blocks = 1;
  int agents_of_block = 1;
  int steps = 1;
  int root = 0;
  int batch = 1;          ///< lines of an agent per step; in a direct kernel, cells of an agent
  bool in_place = false;  ///< used by direct kernels only

  int agents() const { return blocks * agents_of_block; }
  int cells() const { return agents() * batch; }  ///< of a step
  /// Number of tags that the kernel uses.
  int tags() const { return is_direct(task) ? kDirectSteps : steps; }
};

/// A sequence of kernels that all ranks run.
struct Program {
  int ranks = 2;
  std::vector<Kernel> kernels;
  /// Number of blocks of a kernel that fit on a GPU. They begin in the order of their numbers. 0: all blocks fit.
  int room = 0;

  int max_agents() const;
  int max_cells() const;  ///< of a step
  int max_stops() const;  ///< maximum number of waits of an agent in a kernel
  /// Text for failure messages.
  std::string text() const;
};

/// Position in a rank's input or output: a slice and an index in the slice.
using CellPosition = std::pair<int, std::int64_t>;
/// Positions with their values.
using Cells = std::vector<std::pair<CellPosition, std::uint64_t>>;

/// Returns the expected output of a rank's kernel for the cell `index`, computed without lines and schedules.
Cells expected_output(const Program& program, int kernel, int rank, std::int64_t index);
/// Returns the input of a rank's direct kernel for the cell `index`.
Cells input_of(const Program& program, int kernel, int rank, std::int64_t index);

/// Work of schedule.hpp for one task and one agent. Records the stored cells. Sets only the cells that it must.
class TaskWork {
 public:
  /// `reduces_for_itself`: in all_reduce_direct each rank reduces all slices into its own output (a fault).
  TaskWork(const Program& program, int kernel, int rank, bool reduces_for_itself)
      : program_(program), kernel_(kernel), rank_(rank), reduces_for_itself_(reduces_for_itself) {}

  void load(std::int64_t index, Cell (&cells)[kMaxModelRanks]) const;
  void load_own(std::int64_t index, Cell (&cells)[kMaxModelRanks]) const;
  Cell reduce(const Cell (&cells)[kMaxModelRanks]) const;
  void store(std::int64_t index, const Cell (&cells)[kMaxModelRanks]);
  void keep(std::int64_t index, const Cell& cell);
  void store_others(std::int64_t index, const Cell (&cells)[kMaxModelRanks]);
  /// Moves the agent's cells of a direct kernel. The fabric accesses a position of one rank or of all ranks.
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
