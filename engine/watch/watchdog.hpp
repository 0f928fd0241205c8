#pragma once
// Detects a stalled job: no rank makes a step (RankProgress::steps) for a time limit. Names the ranks that the other
// ranks wait for.
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/team/job.hpp"

namespace busbw {

/// Time limit in seconds if the user does not set the flag -T.
inline constexpr double kDefaultLimitS = 600;

/// No rank of a job makes progress.
struct Stall {
  std::string message;
  std::vector<int> ranks;  // that the other ranks wait for; empty if all ranks are at the same step
};

/// Compares the step counters of all ranks between calls.
class Watchdog {
 public:
  /// `limit_s`: maximum time without progress on any rank, starting at `now_s`.
  Watchdog(const Job& job, double limit_s, double now_s) : job_(job), limit_s_(limit_s), last_change_s_(now_s) {}

  /// Checks the progress of all ranks. Returns the stall if no rank made a step for the limit plus `extra_s`, a time in
  /// which another watchdog with the same limit may act first.
  std::optional<Stall> check_progress(double now_s, double extra_s = 0);
  /// Starts the limit again at `now_s`, because the job continues without the ranks that the others waited for.
  void restart(double now_s) { last_change_s_ = now_s; }

 private:
  Stall describe_stall() const;

  const Job& job_;
  double limit_s_;
  double last_change_s_;
  std::vector<std::uint64_t> last_steps_;
};

/// Lists the last operation that each rank issued, grouped by operation. Omits lost ranks if the job continues without
/// them. Empty if no rank has issued an operation.
std::string last_operations_text(const Job& job, const std::string& collective);

}  // namespace busbw
