#pragma once
// The Fabric of schedule.hpp for one agent on the model's machine.
#include "machine.hpp"

namespace busbw::fastpath::model {

/// Runs a kernel of one agent from its start to the first wait that the agent has not passed yet. The part up to the
/// last passed wait repeats earlier work, so only the sends and writes after that wait take effect.
class AgentFabric {
 public:
  static constexpr int kMaxRanks = kMaxModelRanks;

  AgentFabric(const Machine& machine, State& state, int rank, int number);

  int rank() const { return rank_; }
  int ranks() const { return machine_.program_.ranks; }
  int thread() const { return number_; }
  int threads() const { return kernel().agents(); }
  int batch() const { return kernel().batch; }

  void put(int peer, int region, int turn, std::uint64_t tag, const Cell& cell);
  bool take(int region, int turn, std::uint64_t tag, Cell (&cells)[kMaxRanks]);
  /// As on a GPU: the block synchronizes, its leader exchanges empty lines, and the block continues.
  bool barrier(std::uint64_t tag);

  /// Reads a position of the input of one rank, or of all ranks, at one moment. The exploration tries all other
  /// moments.
  bool read(const CellPosition& place, int of_rank, Cell (&cells)[kMaxRanks]);
  /// Writes a position of the output of one rank, or of all ranks.
  void write(const CellPosition& place, int of_rank, const Cell& cell);

  bool is_waiting() const { return is_waiting_; }

 private:
  const Kernel& kernel() const { return machine_.program_.kernels[static_cast<std::size_t>(agent_.kernel)]; }
  /// True if the current point of the kernel repeats earlier work.
  bool is_past() const { return stops_ != agent_.stops; }
  /// Passes a wait that the agent has completed, or begins to wait.
  bool stop(Wait wait, std::uint64_t tag);
  /// Returns the cell that the agent got from a rank at its last wait.
  Cell cell_of_stop(int peer) const;

  const Machine& machine_;
  State& state_;
  Agent& agent_;
  int rank_;
  int number_;
  int stops_ = 0;
  int sent_[kRegions][kMaxModelRanks] = {};
  int taken_[kRegions] = {};
  bool is_waiting_ = false;
};

}  // namespace busbw::fastpath::model
