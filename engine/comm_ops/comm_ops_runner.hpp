#pragma once
// Measures the life of communicators on one rank: creation, first operations, end.
#include <functional>
#include <span>
#include <tuple>
#include <vector>

#include "backends/backend.hpp"
#include "comm_ops/comm_ops_settings.hpp"
#include "measure/checker.hpp"
#include "values/run_result.hpp"

namespace busbw {

/// Times of one kind of call on one rank, in seconds by the host clock: one element for each timed call. Before each
/// call a barrier aligns the ranks.
struct CallTimes {
  LifecycleCall call = LifecycleCall::create;
  /// The call was made on the parent, from which a split, shrink or grow starts. It gets no row of its own: only the
  /// timers in a row count it (LifecycleRow::timers).
  bool is_of_parent = false;
  std::vector<double> delay_s = {};  // from the barrier to the call; empty for a parent
  std::vector<double> time_s = {};   // of the call; of an all_reduce with the wait for its result
  std::vector<double> issue_s = {};  // of an all_reduce without the wait; empty for other calls
  RankCheckResult check_result = {};

  /// For messages between ranks, see HasMembers.
  static auto members(auto& self) {
    return std::tie(self.call, self.is_of_parent, self.delay_s, self.time_s, self.issue_s, self.check_result);
  }
};

/// One test on one number of ranks, which are the first ranks of the job.
struct CommOpsCase {
  CreationKind test = CreationKind::init;
  int ranks = 0;
  int kept_ranks = 0;  // see Creation
};

/// Additions of the caller.
struct CommOpsHooks {
  std::function<void()> before_call;                           // fault injection: delays the call
  std::function<void(std::span<std::int32_t>)> change_result;  // fault injection: corrupts a result before its check
  /// Takes the calls that each rank of a case made, by rank; called on rank 0.
  std::function<void(const CommOpsCase&, const std::vector<std::vector<CallTimes>>&)> report;
};

/// Elements of the checked all_reduce on a job of `ranks` ranks: nccl-tests' number, but at least one for each rank.
std::size_t all_reduce_elements(int ranks);

/// Runs all tests on all numbers of ranks. All ranks of `world` call this function.
void run_comm_ops(const CommOpsSettings& settings, const RunSettings& run, Backend& backend, Team& world,
                  const CommOpsHooks& hooks);

}  // namespace busbw
