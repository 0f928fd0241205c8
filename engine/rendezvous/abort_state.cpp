// Keeps the first failure of the job, or the reason for which this process withdrew from the job. A failure of this
// process is unconfirmed until the store has answered, because another process may have failed earlier.
#include "rendezvous/abort_state.hpp"

#include <chrono>

namespace busbw {

void AbortState::abort(ExitCode exit, const std::string& message) noexcept {
  const std::scoped_lock lock(mutex_);
  if (failure_) return;
  failure_ = Failure{exit, message};
  is_own_failure_ = true;
  is_unconfirmed_ = is_control_open_;
  aborted_.store(true, std::memory_order_release);
}

void AbortState::record_failure(const Failure& failure) noexcept {
  const std::scoped_lock lock(mutex_);
  if (!failure_ || is_unconfirmed_) failure_ = failure;
  is_unconfirmed_ = false;
  aborted_.store(true, std::memory_order_release);
  failure_changed_.notify_all();
}

std::optional<Failure> AbortState::failure() const {
  std::unique_lock lock(mutex_);
  failure_changed_.wait_for(lock, std::chrono::seconds(1), [this] { return !is_unconfirmed_; });
  return failure_;
}

std::optional<Failure> AbortState::failure_to_send() const {
  const std::scoped_lock lock(mutex_);
  return is_own_failure_ ? failure_ : std::nullopt;
}

void AbortState::open_control() noexcept {
  const std::scoped_lock lock(mutex_);
  is_control_open_ = true;
}

void AbortState::close_control() noexcept {
  const std::scoped_lock lock(mutex_);
  is_control_open_ = false;
  is_unconfirmed_ = false;
  failure_changed_.notify_all();
}

void AbortState::tolerate_losses(bool is_tolerated) {
  const std::scoped_lock lock(mutex_);
  tolerates_losses_ = is_tolerated;
}

bool AbortState::tolerates_losses() const {
  const std::scoped_lock lock(mutex_);
  return tolerates_losses_;
}

bool AbortState::withdraw(const std::string& reason, const std::function<void(const std::string&)>& on_status) {
  const std::scoped_lock lock(mutex_);
  if (!tolerates_losses_ || failure_) return false;
  if (!withdrawal_reason_.empty()) return true;  // another rank of this process has withdrawn it
  on_status(reason);
  withdrawal_reason_ = reason;
  aborted_.store(true, std::memory_order_release);
  return true;
}

std::string AbortState::withdrawal_reason() const {
  const std::scoped_lock lock(mutex_);
  return withdrawal_reason_;
}

}  // namespace busbw
