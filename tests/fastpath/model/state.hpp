#pragma once
// State of the machine at one moment.
#include <cstdint>
#include <utility>
#include <vector>

#include "memory.hpp"

namespace busbw::fastpath::model {

/// Identity of a cell, independent of its tag.
struct Label {
  std::int16_t kernel = -1;
  std::int16_t region = 0;
  std::int16_t number = 0;  ///< number among the cells that one agent sends to one peer in that region

  bool operator==(const Label&) const = default;
};

/// Content of a slot, present or under way.
struct Letter {
  std::uint64_t tag = 0;
  std::uint64_t data = 0;
  std::uint64_t arrival = 0;  ///< order of arrival, counted only for the fault `order_of_arrival`
  Label label;
};

struct Slot {
  Letter here;
  Letter under_way;
  bool tag_is_under_way = false;
  bool data_is_under_way = false;
  bool is_taken = true;
};

/// Event that an agent waits for: its peers' cells; all agents of its block; the barrier of its leader; `memory`: no
/// event, a stop before it reads memory.
enum class Wait { nothing, cells, block, leader, memory };

/// State of one agent.
struct Agent {
  int kernel = 0;  ///< next or present kernel among the kernels with this agent
  bool is_running = false;
  int stops = 0;  ///< number of completed waits in this kernel
  Wait wait = Wait::nothing;
  int region = 0;  ///< of the cells that it waits for
  int turn = 0;
  int number = 0;   ///< of the cell, as in Label
  std::uint64_t tag = 0;
  std::uint64_t last_tag = 0;  ///< its block's word when it started
  std::uint64_t last_barrier = 0;       ///< tag of the last barrier

  /// Completes the wait.
  void pass() {
    wait = Wait::nothing;
    ++stops;
  }
};

inline constexpr int kWords = 4;

/// State of one GPU.
struct Gpu {
  int kernel = 0;
  bool has_begun = false;  ///< one of its agents has
  std::uint64_t words[kWords] = {};
  bool retired[kWords] = {};
};

/// Complete state of the machine. It can be copied, so that every move can be tried.
struct State {
  std::vector<Gpu> gpus;
  std::vector<Agent> agents;
  std::vector<Slot> slots;
  std::vector<Letter> read;  ///< early reads of each slot; empty without the fault `data_before_tag`
  std::vector<std::uint64_t> taken;  ///< cells that each agent took or read in its present kernel
  std::vector<int> flights;          ///< slots with a write under way, in no order
  std::uint64_t arrivals = 0;
  Contents contents;
};

/// Returns two numbers that differ, with very high probability, for different states of a program.
std::pair<std::uint64_t, std::uint64_t> digest(const State& state);

}  // namespace busbw::fastpath::model
