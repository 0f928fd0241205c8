#pragma once
// Exploration of the orders of moves of a program: all orders, or many random ones.
#include <cstdint>
#include <string>

#include "machine.hpp"

namespace busbw::fastpath::model {

/// Result of an exploration.
struct Explored {
  std::uint64_t states = 0;  ///< number of different states; not counted for random orders
  std::uint64_t moves = 0;
  std::uint64_t ends = 0;  ///< number of states, or random orders, without further moves
  std::string failure;     ///< violation of the protocol and the moves that led to it; empty: no violation

  Explored& operator+=(const Explored& other);
};

/// Explores every order of all moves: visits each reachable state once and tries every move in it. States are compared
/// by a digest of 128 bits. Ends at the first failure. Throws std::length_error beyond `max_states`.
Explored explore_all(const Program& program, const Faults& faults, std::uint64_t max_states);

/// Explores `ways` random orders. Each has preferences that change over time: late or early deliveries, newest or
/// oldest first, a slow rank, a late agent. Ends at the first failure.
Explored explore_random(const Program& program, const Faults& faults, std::uint64_t seed, int ways);

}  // namespace busbw::fastpath::model
