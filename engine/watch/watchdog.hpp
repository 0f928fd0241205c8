#pragma once
// Notices that a job does not get on, and says who is missing.
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/team/job.hpp"

namespace busbw {

/// The limit when -T is not given.
inline constexpr double kDefaultLimitS = 600;

class Watchdog {
 public:
  /// `limit_s`: how long no rank may get on, from the first wait on.
  Watchdog(const Job& job, double limit_s, double now_s) : job_(job), limit_s_(limit_s), last_change_s_(now_s) {}

  /// Looks at the ranks; a sentence when none has made a step for the limit.
  std::optional<std::string> check_progress(double now_s);

 private:
  std::string stall_message() const;

  const Job& job_;
  double limit_s_;
  double last_change_s_;
  std::vector<std::uint64_t> last_steps_;
};

/// Which operation each rank issued last, ranks that issued the same one named together; empty where none has issued
/// any.
std::string last_operations(const Job& job, const std::string& collective);

}  // namespace busbw
