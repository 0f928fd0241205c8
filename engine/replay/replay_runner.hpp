#pragma once
// Measures a replay program on one rank: checks its calls, then times its step.
#include <functional>
#include <memory>
#include <vector>

#include "measure/rank_report.hpp"
#include "replay/matched_calls.hpp"
#include "replay/step_check.hpp"
#include "values/run_result.hpp"

namespace busbw {

/// Additions of the caller to a replay.
struct ReplayHooks {
  /// Fault injection: returns a replacement of the step, or null.
  std::function<std::unique_ptr<Collective>(const Collective& step)> replace_step;
  ResultChange change_result;
  /// Takes the reports of all ranks after a cycle; called on rank 0.
  std::function<void(int cycle, StopReason stopped_by, std::vector<RankReport> ranks)> report;
};

/// Connects the program's communicators and measures its step as often as `settings` require. All ranks of `world` call
/// this function. `first`: this rank's communicator of all ranks.
void run_replay(const MatchedCalls& calls, const RunSettings& settings, Backend& backend, Team& world,
                Communicator& first, const ReplayHooks& hooks);

}  // namespace busbw
