#pragma once
// Keeps the reason for which the ranks of one process of a launched job must end. If several processes fail, the first
// failure of the job replaces that of this process.
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "rendezvous/team/job.hpp"

namespace busbw {

/// The job's first failure, or the reason for which this process withdrew: it leaves a job that continues without it.
/// All functions may be called from any thread.
///
/// The store in process 0 knows whether another process failed earlier. So a failure of this process is unconfirmed
/// until the store has answered.
class AbortState {
 public:
  explicit AbortState(bool tolerates_losses) : tolerates_losses_(tolerates_losses) {}

  bool aborted() const noexcept { return aborted_.load(std::memory_order_acquire); }
  /// Aborts the job because of a failure of this process. Does nothing if a failure is known.
  void abort(ExitCode exit, const std::string& message) noexcept;
  /// Records the failure that the store reported. It replaces an unconfirmed failure of this process.
  void record_failure(const Failure& failure) noexcept;
  /// Returns the job's first failure. Waits up to 1 s for the store to confirm this process's failure or to answer with
  /// an earlier one of another process.
  std::optional<Failure> failure() const;
  /// Returns nothing if no failure began in this process. Otherwise returns the failure to send to the store: that of
  /// this process, or an earlier failure that the store has reported meanwhile.
  std::optional<Failure> failure_to_send() const;
  /// From now on, a control connection sends this process's failure, so failure() waits for the answer.
  void open_control() noexcept;
  /// Ends the waits in failure(). Call it when the control connection ends, because no answer can arrive afterwards.
  void close_control() noexcept;

  /// See Job::tolerate_losses.
  void tolerate_losses(bool is_tolerated);
  bool tolerates_losses() const;
  /// Ends the ranks of this process with `reason`, and first passes the reason to `on_status`. Returns false if the job
  /// does not tolerate losses or has failed.
  bool withdraw(const std::string& reason, const std::function<void(const std::string&)>& on_status);
  /// Empty if this process has not withdrawn.
  std::string withdrawal_reason() const;

 private:
  std::atomic<bool> aborted_{false};
  mutable std::mutex mutex_;  // guards the following members
  mutable std::condition_variable failure_changed_;
  std::optional<Failure> failure_;
  std::string withdrawal_reason_;
  bool tolerates_losses_;
  bool is_own_failure_ = false;  // a failure began in this process, so the control connection must send `failure_`
  bool is_unconfirmed_ = false;  // the store has not answered `failure_` yet and may still name an earlier failure
  bool is_control_open_ = false;
};

}  // namespace busbw
