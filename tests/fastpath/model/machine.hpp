#pragma once
// Model of GPUs that run a program of kernels with the schedules of fastpath/schedule/schedule.hpp. The GPUs make one
// small move at a time, in any order.
//
// The memory is as weakly ordered as the schedules allow. A write is under way until a move delivers it. That may be at
// any later time, also after the end of its kernel. Writes to different slots arrive in any order, also those of one
// agent to one peer. The model assumes that a line arrives as a whole and is read as a whole: its data are there when
// its tag is seen.
//
// An agent represents the threads that write one line together. Agents may start at any time. In a step an agent writes
// a batch of lines, each of which is delivered separately, and takes its peers' lines one by one. A rank's kernel
// starts when the previous one has ended. A GPU has room for all blocks of a kernel, or for fewer, which then begin in
// the order of their numbers. Between kernels one word per block holds the last tag used.
//
// In a direct kernel the first agent of each block is its leader: it takes part in the barriers. memory.hpp models the
// buffers.
#include <cstdint>
#include <string>
#include <vector>

#include "broken.hpp"
#include "memory.hpp"
#include "program.hpp"
#include "state.hpp"

namespace busbw::fastpath::model {

/// Faults that are injected to show that the model finds them.
struct Faults {
  bool one_turn = false;            ///< even and odd tags use the same slots
  bool one_region = false;          ///< the second half of two_shot uses the slots of the first
  bool one_slot_of_batch = false;   ///< an agent's lines of a step go to one slot
  bool quiet_ranks = false;         ///< in a broadcast only the root sends, and no rank waits for the others
  bool idle_agents_rest = false;    ///< the last agent of a kernel skips the last step
  bool tags_of_kernels = false;     ///< a kernel uses one tag, for any number of steps
  bool order_of_arrival = false;    ///< cells are reduced in the order of their arrival
  bool words_by_first = false;      ///< the first block writes the words of all blocks
  bool own_words_only = false;      ///< a block writes only its own word
  bool kernels_overlap = false;     ///< the agents of a kernel do not wait for the end of the previous kernel
  bool tag_before_data = false;     ///< a line's tag and its data arrive apart
  bool data_before_tag = false;     ///< a line's data are read before its tag is
  bool blocks_in_any_order = false;  ///< blocks begin in any order if not all of a kernel's blocks fit

  bool no_first_barrier = false;     ///< a direct kernel moves its data without the first barrier
  bool no_second_barrier = false;    ///< a direct kernel ends without the second barrier
  bool no_fence = false;             ///< the lines of a barrier may overtake the block's writes
  bool leader_barriers_alone = false;  ///< the leader and the other agents of its block do not wait for each other
  bool only_first_block_barriers = false;    ///< the first block of a rank takes part in the barrier for all blocks
  bool one_barrier_tag = false;  ///< both barriers of a kernel use the same tag
  bool reduces_for_itself = false;   ///< each rank reduces all slices of a direct all-reduce into its own output
};

/// One move of the machine.
struct Move {
  enum class Kind { run, deliver, deliver_tag, deliver_data, deliver_write, retire };
  Kind kind = Kind::run;
  int rank = 0;   ///< run, retire
  int index = 0;  ///< run: the agent; retire: the block; deliver: the slot, or which of the writes under way

  bool operator==(const Move&) const = default;
};

/// The modeled GPUs with their program.
class Machine {
 public:
  /// `program` must outlive this object. Throws std::invalid_argument if it has too many blocks or ranks.
  Machine(const Program& program, const Faults& faults);

  State start() const;
  /// Returns all possible moves, always in the same order.
  std::vector<Move> moves(const State& state) const;
  bool can_run(const State& state, int rank, int agent) const;
  bool has_room(const State& state, int rank, int agent) const;
  bool can_retire(const State& state, int rank, int block) const;
  /// Makes a move. Throws Broken.
  void make(State& state, const Move& move) const;
  /// Checks a state without possible moves. Throws Broken if an agent has not reached its end or a cell was not taken.
  void check_end(const State& state) const;
  /// Describes a move that is possible in this state.
  std::string text(const State& state, const Move& move) const;

  const Program& program() const { return program_; }

 private:
  friend class AgentFabric;

  int slot_of(int receiver, int sender, int kernel, int region, int turn, std::uint64_t tag, int agent) const;
  std::string place(int slot) const;
  Agent& agent_of(State& state, int rank, int agent) const;
  const Agent& agent_of(const State& state, int rank, int agent) const;
  bool waits_for(int kernel, int rank, int peer) const;
  int leader_of(int kernel, int agent) const;
  void read_data(State& state, int rank, int agent) const;
  bool have_cells_arrived(const State& state, int rank, int agent) const;
  bool has_block_arrived(const State& state, int rank, int leader) const;
  std::size_t first_taken(int rank, int agent, int stop) const;
  int steps_of(int kernel, int agent) const;
  void next_kernel(Agent& agent, int number) const;
  void run(State& state, int rank, int agent) const;
  void take(State& state, int rank, int agent) const;
  void deliver(State& state, const Move& move) const;
  void retire(State& state, int rank, int block) const;
  void check_output(const TaskWork& work, int kernel, int rank, int agent) const;
  void send(State& state, int slot, const Letter& letter) const;

  const Program& program_;
  Faults faults_;
  int agents_;  // of a rank, at most
  int cells_;   // of a rank in a step, at most
  int stops_;   // of an agent in a kernel, at most
  Memory memory_;
};

}  // namespace busbw::fastpath::model
