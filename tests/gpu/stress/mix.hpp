#pragma once
#include <cstdint>

#include "team.hpp"

namespace stress {

/// Settings of a random mix.
struct MixSettings {
  double seconds = 10;
  std::uint64_t seed = 1;
  /// Round in which one byte of a result is changed, so that the check must fail; 0: never.
  std::uint64_t plant_in_round = 0;
  bool ends_differ = true;     ///< odd and even ranks destroy two communicators in different order
  bool has_windows = false;    ///< buffers are in symmetric windows for calls with such kernels in NCCL
  bool connects_first = true;  ///< send and receive are used once before any graph is captured
};

/// Runs rounds of a random mix of calls. Checks every result and every byte around it after each round.
void run_mix(Team& team, const MixSettings& settings);
/// Prints a line with the counts of run_mix() over all ranks.
void print_mix_summary(const Shared& shared, double seconds);

}  // namespace stress
