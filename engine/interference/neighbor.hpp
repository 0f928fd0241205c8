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
#include "measure/sampling/series_sampling.hpp"

namespace busbw {

/// Activity of a neighbor on one rank, between `start` and `stop`. The measured time is from the end of `start` to the
/// beginning of `stop`.
struct NeighborActivity {
  double measured_s = 0;
  /// Part of the measured time with an issued and unfinished operation. It includes pauses of the thread and of the
  /// device, so it does not show the load.
  double active_s = 0;
  std::uint64_t operations = 0;           // all operations, measured or not; the same number on all ranks
  std::uint64_t measured_operations = 0;  // operations that overlap the measured time
  double measured_operations_s = 0;       // whole duration of the measured operations

  /// For messages between ranks, see HasMembers.
  static auto members(auto& self) {
    return std::tie(self.measured_s, self.active_s, self.operations, self.measured_operations,
                    self.measured_operations_s);
  }
};

/// The neighbor of one rank. All ranks call its functions in the same order, in the ranks' own threads.
///
/// All ranks run the same number of operations, because an operation ends only if all ranks start it. So `stop` first
/// freezes each rank's number of rounds. Then each rank continues to the highest number of all ranks.
class Neighbor final : public BackgroundActivity {
 public:
  /// Connects a communicator of the neighbor, which uses the send buffer and the receive buffer of
  /// `measured_communicator` from `offset` on. `color`: a number that ranks share if they belong to one measured
  /// communicator. If the neighbor's thread fails, it calls `on_failure` while it handles the exception, so that
  /// std::current_exception() is the error. `load`, `backend`, `world` and `measured_communicator` must outlive this.
  Neighbor(const NeighborLoad& load, Backend& backend, Team& world, int color, Communicator& measured_communicator,
           std::size_t offset, std::function<void()> on_failure);
  /// Waits for the end of the thread. Operations that wait for other ranks end only if the job is aborted.
  ~Neighbor() override;

  /// Forgets earlier activity, fills the buffers, and runs one round of operations, which opens connections.
  void prepare(std::uint64_t seed);
  /// Returns when one round of operations has finished and the next one has begun. Throws the error of the neighbor.
  void start() override;
  /// Ends the measured time. Returns when all ranks have run the same number of operations and the thread has ended.
  /// Throws the error of the neighbor.
  void stop() override;
  /// Adds the wrong elements of the last operation to `check_result`. Call it only after `stop`.
  void verify(RankCheckResult& check_result);
  /// Returns the activity since `prepare` or the last call.
  NeighborActivity take_activity();

 private:
  class SlicedCommunicator;

  /// Rounds since `start`, numbered from 1. A round has the operations between two waits for the device. The measured
  /// rounds are all from the second one, which has begun when `start` returns, to the last one before the freeze.
  struct Rounds {
    std::uint64_t begun = 0;
    std::uint64_t ended = 0;
    bool has_failed = false;
    bool is_frozen = false;                      // no round begins until `limit` is known
    std::optional<std::uint64_t> last_measured;  // number of the last measured round; known after the freeze
    std::optional<std::uint64_t> limit;          // number of rounds that all ranks run
  };

  RankCase rank_case() const;
  /// Runs rounds in the neighbor's thread, up to the limit.
  void repeat();
  void run_round();
  /// Counts the round that begins now. Returns false if the limit is reached.
  bool begin_round();
  void end_round();
  /// Total duration of all rounds of this object until `now_s`, measured or not. The difference of two results is the
  /// active time between two moments. Call it with the mutex locked.
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
  // Guarded by `mutex_` while the thread runs.
  Rounds rounds_;
  double round_start_s_ = 0;
  double ended_rounds_s_ = 0;  // total duration of all rounds that have ended, also before the last `start`
  NeighborActivity activity_;

  double measured_start_s_ = 0;
  double active_before_measured_s_ = 0;  // active_until(measured_start_s_)
  std::future<void> thread_;  // invalid while the neighbor does not run
};

}  // namespace busbw
