#pragma once
// GPUs that run a program of kernels by the schedules of fastpath/schedule/schedule.hpp, one small move at a time, in any order.
//
// The memory is as weak as it may be for the schedules to hold: a write is under way until a move delivers it, which
// may be at any time later, also after its kernel's end, and writes to different slots arrive in any order, those of
// one agent to one peer too. What is taken for granted is that a line arrives whole, its data not after its tag, and is
// read whole: the data are those that were there when the tag was seen.
//
// An agent stands for the threads that write one line together; agents may start at any time, also one after another's
// end. In a step it writes a batch of lines, of which each is under way by itself, and takes them one by one. A rank's
// kernel starts when the one before has ended. A GPU has room for all blocks of a kernel, or for fewer, which then
// begin in the order of their numbers. Between kernels a word for each block holds the last tag used.
//
// In a direct kernel the first agent of each block speaks for it where blocks meet. The buffers are memory.hpp's.
#include <cstdint>
#include <string>
#include <vector>

#include "broken.hpp"
#include "memory.hpp"
#include "program.hpp"
#include "state.hpp"

namespace busbw::fastpath::model {

/// What is done wrong on purpose, to see that it is found.
struct Faults {
  bool one_turn = false;            ///< slots do not take turns by even and odd tags
  bool one_region = false;          ///< the second half of two_shot uses the slots of the first
  bool one_slot_of_batch = false;   ///< an agent's lines of a step go to one slot
  bool quiet_ranks = false;         ///< in a broadcast only the root sends, and nobody waits for the others
  bool idle_agents_rest = false;    ///< the last agent of a kernel leaves out the last step
  bool tags_of_kernels = false;     ///< a kernel uses up one tag, whatever its steps
  bool order_of_arrival = false;    ///< cells are handed over in the order in which they came
  bool words_by_first = false;      ///< the first block writes all blocks' words
  bool own_words_only = false;      ///< a block writes its own word only
  bool kernels_overlap = false;     ///< a kernel's agents do not wait for the end of the kernel before
  bool tag_before_data = false;     ///< a line's tag and its data arrive apart
  bool data_before_tag = false;     ///< a line's data are read before its tag is
  bool blocks_in_any_order = false;  ///< where there is no room for all of a kernel's blocks

  bool no_first_meeting = false;     ///< a direct kernel moves its data as soon as it begins
  bool no_second_meeting = false;    ///< and ends as soon as it has moved them
  bool no_fence = false;             ///< a meeting's lines may overtake what the block has written
  bool speaker_meets_alone = false;  ///< the other agents of its block neither wait for it nor does it for them
  bool first_block_meets = false;    ///< for all blocks of its rank
  bool one_tag_of_meetings = false;  ///< both meetings of a kernel have the same
  bool reduces_for_itself = false;   ///< each rank reduces all slices of a direct all-reduce, for itself alone
};

struct Move {
  enum class Kind { run, deliver, deliver_tag, deliver_data, deliver_write, retire };
  Kind kind = Kind::run;
  int rank = 0;   ///< run, retire
  int index = 0;  ///< run: the agent; retire: the block; deliver: the slot, or which of the writes under way

  bool operator==(const Move&) const = default;
};

class Machine {
 public:
  /// The program must outlive this. Throws std::invalid_argument where it has more blocks than words, or more ranks.
  Machine(const Program& program, const Faults& faults);

  State start() const;
  /// All moves that can be made, always in the same order.
  std::vector<Move> moves(const State& state) const;
  bool can_run(const State& state, int rank, int agent) const;
  bool has_room(const State& state, int rank, int agent) const;
  bool can_retire(const State& state, int rank, int block) const;
  /// Makes one. Throws Broken.
  void make(State& state, const Move& move) const;
  /// Looks at a state without moves. Throws Broken where not everybody has come to the end, or cells were left.
  void check_end(const State& state) const;
  /// What a move is in the state in which it can be made.
  std::string text(const State& state, const Move& move) const;

  const Program& program() const { return program_; }

 private:
  friend class AgentFabric;

  int slot_of(int receiver, int sender, int kernel, int region, int turn, std::uint64_t tag, int agent) const;
  std::string place(int slot) const;
  Agent& agent_of(State& state, int rank, int agent) const;
  const Agent& agent_of(const State& state, int rank, int agent) const;
  bool waits_for(int kernel, int rank, int peer) const;
  int speaker_of(int kernel, int agent) const;
  void read_data(State& state, int rank, int agent) const;
  bool have_cells_come(const State& state, int rank, int agent) const;
  bool has_block_come(const State& state, int rank, int speaker) const;
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
