#pragma once
#include <cstdint>

#include "team.hpp"

namespace stress {

struct MixSettings {
  double seconds = 10;
  std::uint64_t seed = 1;
  std::uint64_t plant_in_round =
      0;  ///< a byte of one result is changed then, so that the run must find something; 0: never
  bool ends_differ = true;     ///< two communicators are destroyed in different order on odd and even ranks
  bool has_windows = false;  ///< buffers are in symmetric windows of all communicators, where NCCL has kernels for that
  bool connects_first = true;  ///< send and receive are used once before any graph is captured
};

/// Rounds of a random mix of everything; every result, and every byte around it, is checked after each.
void run_mix(Team& team, const MixSettings& settings);
/// A line on what run_mix() did, over all ranks.
void say_mix(const Shared& shared, double seconds);

}  // namespace stress
