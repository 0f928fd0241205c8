#pragma once
// What there is on the machine at one moment.
#include <cstdint>
#include <utility>
#include <vector>

#include "memory.hpp"

namespace busbw::fastpath::model {

/// Which cell it is, whatever its tag says.
struct Label {
  std::int16_t kernel = -1;
  std::int16_t region = 0;
  std::int16_t number = 0;  ///< of those that one agent sends to one peer in that region

  bool operator==(const Label&) const = default;
};

/// What a slot holds, or will hold.
struct Letter {
  std::uint64_t tag = 0;
  std::uint64_t data = 0;
  std::uint64_t arrival = 0;  ///< counted only where the order matters
  Label label;
};

struct Slot {
  Letter here;
  Letter under_way;
  bool tag_is_under_way = false;
  bool data_is_under_way = false;
  bool is_taken = true;
};

/// What an agent waits for: its peers' cells; that its block has gathered, or that its speaker has met the others; or
/// nothing, before it reads memory.
enum class Wait { nothing, cells, block, speaker, memory };

struct Agent {
  int kernel = 0;  ///< the next or present one of those that have this agent
  bool is_running = false;
  int stops = 0;  ///< how often it has waited in this kernel
  Wait wait = Wait::nothing;
  int region = 0;  ///< of the cells that it waits for
  int turn = 0;
  int number = 0;   ///< of the cell, as in Label
  std::uint64_t tag = 0;
  std::uint64_t last_tag = 0;  ///< its block's word when it started
  std::uint64_t met = 0;       ///< the last tag with which it met others

  /// What it waited for is there.
  void pass() {
    wait = Wait::nothing;
    ++stops;
  }
};

inline constexpr int kWords = 4;

struct Gpu {
  int kernel = 0;
  bool has_begun = false;  ///< one of its agents has
  std::uint64_t words[kWords] = {};
  bool retired[kWords] = {};
};

/// All there is: a value that can be copied, so that every move of it can be tried.
struct State {
  std::vector<Gpu> gpus;
  std::vector<Agent> agents;
  std::vector<Slot> slots;
  std::vector<Letter> read;  ///< of each slot, by the agent that waits for it; empty where lines are read whole
  std::vector<std::uint64_t> taken;  ///< the cells each agent took or read in its present kernel
  std::vector<int> flights;  ///< the slots with something under way, in no order
  std::uint64_t arrivals = 0;
  Contents contents;
};

/// Two numbers that two states of one program share only if they are alike.
std::pair<std::uint64_t, std::uint64_t> digest(const State& state);

}  // namespace busbw::fastpath::model
