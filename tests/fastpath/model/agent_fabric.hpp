#pragma once
// The Fabric of schedule.hpp for one agent on the model's machine.
#include "machine.hpp"

namespace busbw::fastpath::model {

/// Runs a kernel from its begin to the first thing that the agent has not waited for yet. Everything it did up to there
/// was done before, so only what it sends and writes after it waited last is sent and written.
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
  /// As on a GPU: the block gathers, one agent of it passes empty lines, and the block goes on.
  bool barrier(std::uint64_t tag);

  /// A place of the input of one rank, or of all, at one moment: any other moment is as possible, so one is enough.
  bool read(const Place& place, int of_rank, Cell (&cells)[kMaxRanks]);
  /// A place of the output of one rank, or of all.
  void write(const Place& place, int of_rank, const Cell& cell);

  bool is_waiting() const { return is_waiting_; }

 private:
  const Kernel& kernel() const { return machine_.program_.kernels[static_cast<std::size_t>(agent_.kernel)]; }
  /// Whether this was done before.
  bool is_past() const { return stops_ != agent_.stops; }
  /// Goes past what the agent has waited for, or begins to wait for it.
  bool stop(Wait wait, std::uint64_t tag);
  /// What it got of a rank where it stopped last.
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
