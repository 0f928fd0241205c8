#pragma once
// Ways through a program on the machine: all of them, or many at random.
#include <cstdint>
#include <string>

#include "machine.hpp"

namespace busbw::fastpath::model {

struct Explored {
  std::uint64_t states = 0;  ///< different ones; not counted at random
  std::uint64_t moves = 0;
  std::uint64_t ends = 0;  ///< states, or ways, without anything left to do
  std::string failure;     ///< empty, or what was broken and by which moves

  Explored& operator+=(const Explored& other);
};

/// Every order of all moves: each state that can be reached is looked at once, every move is made in it. States are
/// told apart by 128 bits made of all they hold. Ends with the first failure. Throws std::length_error beyond
/// `max_states`.
Explored explore_all(const Program& program, const Faults& faults, std::uint64_t max_states);

/// So many ways, each with habits of its own that change on the way: late or early deliveries, the newest or the oldest
/// first, a slow rank, an agent that is late. Ends with the first failure.
Explored explore_random(const Program& program, const Faults& faults, std::uint64_t seed, int ways);

}  // namespace busbw::fastpath::model
