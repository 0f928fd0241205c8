#pragma once
// Repeats a load next to the measured operation (--with), on a communicator and in a thread of its own on each rank.
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>

#include "interference/neighbor_load.hpp"
#include "measure/checker.hpp"
#include "measure/sampling/placement_sampling.hpp"

namespace busbw {

/// Activity of a neighbor on one rank, between `start` and `stop`. The measured time is from the end of `start` to the
/// beginning of `stop`.
struct NeighborActivity {
  double measured_s = 0;
  /// Part of the measured time with an issued and unfinished operation. It includes pauses of the thread and of the
  /// device, so it does not show the load.
  double active_s = 0;
  std::uint64_t operations = 0;           // of all time; the same on all ranks
  std::uint64_t measured_operations = 0;  // that overlap the measured time
  double measured_operations_s = 0;       // from their beginning to their end

  static auto members(auto& self) {
    return std::tie(self.measured_s, self.active_s, self.operations, self.measured_operations,
                    self.measured_operations_s);
  }
};

/// The neighbor of one rank. All ranks call its functions in the same order, in the ranks' own threads.
///
/// All ranks run the same number of operations, so that none waits for one that never starts: `stop` freezes the
/// counts, and all ranks run to the highest one.
class Neighbor final : public BackgroundActivity {
 public:
  /// Connects the communicator. `color`: of the ranks that measure together. `measured`: communicator with the buffers;
  /// those of the neighbor start at `offset` in both. `on_failure` is called in the neighbor's thread while its
  /// exception is handled. All arguments except `color` must outlive this.
  Neighbor(const NeighborLoad& load, Backend& backend, Team& world, int color, Communicator& measured,
           std::size_t offset, std::function<void()> on_failure);
  /// Ends the thread. Operations that wait for other ranks end only if the job is aborted.
  ~Neighbor() override;

  /// Fills the buffers, runs one round of operations, which opens connections, and forgets earlier activity.
  void prepare(std::uint64_t seed);
  /// Returns when one round of operations has finished and the next one has begun. Throws the error of the neighbor.
  void start() override;
  void stop() override;
  /// Adds wrong elements of the last operation since `prepare`. Call it only after `stop`.
  void verify(RankCheckResult& check_result);
  /// Returns the activity since `prepare` or the last call.
  NeighborActivity take_activity();

 private:
  class SlicedCommunicator;

  RankCase rank_case() const;
  void repeat();
  /// Runs the operations between two waits for the device.
  void run_round();
  bool begin_round();
  void end_round();
  /// Seconds with an unfinished operation until now. Call it with the mutex locked.
  double active_until(double now_s) const;

  const NeighborLoad& load_;
  Team& world_;
  std::function<void()> on_failure_;
  std::unique_ptr<Team> team_;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<SlicedCommunicator> slice_;
  Shape shape_;
  ReductionValues values_;
  std::unique_ptr<CaseBuffers> buffers_;
  std::optional<Checker> checker_;
  std::uint64_t seed_ = 0;
  int operations_per_round_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t begun_rounds_ = 0;  // since `start`
  std::uint64_t ended_rounds_ = 0;
  std::optional<std::uint64_t> last_measured_round_;  // none until `stop` freezes the counts
  bool is_frozen_ = false;                  // no round begins before the limit is known
  std::optional<std::uint64_t> max_rounds_;
  bool has_failed_ = false;
  double round_start_s_ = 0;
  double ended_rounds_s_ = 0;
  double window_start_s_ = 0;
  double active_before_window_s_ = 0;
  NeighborActivity activity_;
  std::future<void> thread_;  // invalid while the neighbor does not run
};

}  // namespace busbw
