#pragma once
// What the model runs: the kernels of a job's ranks, one after another, and what each rank must have at the end of each.
//
// A cell is one number here. Numbers are mixed so that no two cells are equal and a reduction in another order, or of
// other cells, comes to another number: ranks that agree have done the same.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fastpath/schedule.hpp"

namespace busbw::fastpath::model {

inline constexpr int kMostRanks = 8;

enum class Task {
  all_reduce_one_shot,
  all_reduce_two_shot,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast_one_shot,
  broadcast_two_shot
};
inline constexpr Task kTasks[] = {Task::all_reduce_one_shot, Task::all_reduce_two_shot, Task::all_gather,
                                  Task::reduce_scatter,      Task::all_to_all,          Task::broadcast_one_shot,
                                  Task::broadcast_two_shot};

/// Whether a task is run by `two_shot`; all others are by `exchange`.
bool has_two_shots(Task task);
const char* name_of(Task task);

/// One operation. An agent stands for the threads that write one line together.
struct Kernel {
  Task task = Task::all_gather;
  int blocks = 1;
  int agents_of_block = 1;
  int steps = 1;
  int root = 0;
  int batch = 1;  ///< lines of an agent in a step

  int agents() const { return blocks * agents_of_block; }
};

struct Program {
  int ranks = 2;
  std::vector<Kernel> kernels;
  /// So many blocks of a kernel at a time on a GPU, which begin in the order of their numbers; 0: there is room for all.
  int room = 0;

  int most_agents() const;
  int most_cells() const;  ///< of a step
  int most_takes() const;  ///< of an agent
  /// As a failure prints it.
  std::string text() const;
};

/// A place in a rank's output, and what it holds. A place is a slice and an index within it.
using Output = std::vector<std::pair<std::pair<int, std::int64_t>, std::uint64_t>>;

/// What a rank's kernel must write for the cell `index`: said without cells, lines and schedules.
Output expected_output(const Program& program, int kernel, int rank, std::int64_t index);

/// The task as schedule.hpp wants it, for one agent; keeps what it is given to store. It fills in no more cells than it must.
class TaskWork {
 public:
  TaskWork(const Program& program, int kernel, int rank) : program_(program), kernel_(kernel), rank_(rank) {}

  void load(std::int64_t index, Cell (&cells)[kMostRanks]) const;
  void load_own(std::int64_t index, Cell (&cells)[kMostRanks]) const;
  Cell reduce(const Cell (&cells)[kMostRanks]) const;
  void store(std::int64_t index, const Cell (&cells)[kMostRanks]);
  void keep(std::int64_t index, const Cell& cell);
  void store_others(std::int64_t index, const Cell (&cells)[kMostRanks]);

  const Output& output() const { return output_; }

 private:
  const Kernel& kernel() const { return program_.kernels[static_cast<std::size_t>(kernel_)]; }
  bool has_input() const;
  Cell input_for(int peer, std::int64_t index) const;

  const Program& program_;
  int kernel_;
  int rank_;
  Output output_;
};

}  // namespace busbw::fastpath::model
