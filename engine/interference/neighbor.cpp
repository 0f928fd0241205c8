#include "interference/neighbor.hpp"

#include <algorithm>
#include <utility>

#include "backends/observing_communicator.hpp"
#include "measure/clock.hpp"

namespace busbw {
namespace {

/// Operations that a device gets before the thread waits for it, so that the wait is a small part of the time.
constexpr int kOperationsPerDeviceRound = 16;

}  // namespace

/// The neighbor's part of the buffers, which it shares with the measured operation.
class Neighbor::SlicedCommunicator final : public ObservingCommunicator {
 public:
  SlicedCommunicator(Communicator& inner, std::size_t offset)
      : ObservingCommunicator(inner), timestamps_(inner.timestamps()), offset_(offset) {}
  std::span<std::byte> send_buffer() override { return ObservingCommunicator::send_buffer().subspan(offset_); }
  std::span<std::byte> recv_buffer() override { return ObservingCommunicator::recv_buffer().subspan(offset_); }
  Timestamps* timestamps() override { return timestamps_; }

 private:
  void begin_operation(const ObservedOperation&) override {}

  Timestamps* timestamps_;
  std::size_t offset_;
};

Neighbor::Neighbor(const NeighborLoad& load, Backend& backend, Team& world, int color, Communicator& measured,
                   std::size_t offset, std::function<void()> on_failure)
    : load_(load),
      world_(world),
      on_failure_(std::move(on_failure)),
      team_(world.split(load.is_local ? world.rank() : color)),
      communicator_(backend.connect_further(world, *team_, measured, /*layer=*/1)),
      slice_(std::make_unique<SlicedCommunicator>(*communicator_, offset)),
      shape_(load.collective->shape(load.bytes / size_bytes(load.dtype), size_bytes(load.dtype), team_->size())),
      values_(load.dtype, load.redop, team_->size()),
      buffers_(std::make_unique<CaseBuffers>(*slice_, shape_, load.dtype, load.bytes, /*unalign_elements=*/0)),
      operations_per_round_(slice_->timestamps() ? kOperationsPerDeviceRound : 1) {
  checker_.emplace(*slice_, *buffers_, values_, world.rank());
}

Neighbor::~Neighbor() {
  {
    const std::lock_guard lock(mutex_);
    is_frozen_ = true;
    max_rounds_ = begun_rounds_;
  }
  changed_.notify_all();
  if (thread_.valid()) thread_.wait();
}

RankCase Neighbor::rank_case() const {
  return {*load_.collective, shape_, load_.dtype, load_.redop, load_.root, seed_};
}

void Neighbor::prepare(std::uint64_t seed) {
  seed_ = seed;
  activity_ = {};
  slice_->use_in_this_thread();
  checker_->prepare(rank_case(), Placement::out_of_place);
  world_.barrier();
  run_round();
}

void Neighbor::verify(RankCheckResult& check_result) {
  RankCheckResult own = checker_->verify_result(rank_case(), Placement::out_of_place);
  check_result.wrong_elements += own.wrong_elements;
  for (WrongElement& wrong : own.first_wrong) {
    wrong.place = "neighbor's " + wrong.place;
    if (check_result.first_wrong.size() < Mismatches::kKept) check_result.first_wrong.push_back(std::move(wrong));
  }
}

void Neighbor::start() {
  begun_rounds_ = ended_rounds_ = 0;
  is_frozen_ = has_failed_ = false;
  max_rounds_.reset();
  last_measured_round_.reset();
  thread_ = std::async(std::launch::async, [this] { repeat(); });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return begun_rounds_ > 1 || has_failed_; });
  if (has_failed_) {
    lock.unlock();
    thread_.get();
  }
  window_start_s_ = monotonic_s();
  active_before_window_s_ = active_until(window_start_s_);
}

void Neighbor::stop() {
  std::uint64_t own_rounds = 0;
  {
    const std::lock_guard lock(mutex_);
    const double now_s = monotonic_s();
    activity_.measured_s += now_s - window_start_s_;
    activity_.active_s += active_until(now_s) - active_before_window_s_;
    is_frozen_ = true;
    own_rounds = begun_rounds_;
    last_measured_round_ = own_rounds;
  }
  const std::vector<std::uint64_t> rounds = all_gather_values(*team_, own_rounds);
  {
    const std::lock_guard lock(mutex_);
    max_rounds_ = *std::ranges::max_element(rounds);
    activity_.operations += *max_rounds_ * static_cast<std::uint64_t>(operations_per_round_);
  }
  changed_.notify_all();
  thread_.get();
  slice_->use_in_this_thread();
}

NeighborActivity Neighbor::take_activity() { return std::exchange(activity_, {}); }

void Neighbor::repeat() {
  try {
    slice_->use_in_this_thread();
    while (begin_round()) {
      run_round();
      end_round();
    }
  } catch (...) {
    on_failure_();
    {
      const std::lock_guard lock(mutex_);
      has_failed_ = true;
    }
    changed_.notify_all();
    throw;
  }
}

void Neighbor::run_round() {
  for (int operation = 0; operation < operations_per_round_; ++operation)
    load_.collective->run(*slice_, buffers_->call(Placement::out_of_place, 0, load_.dtype, load_.redop, load_.root));
  slice_->synchronize();
}

bool Neighbor::begin_round() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !is_frozen_ || max_rounds_; });
    if (max_rounds_ && begun_rounds_ >= *max_rounds_) return false;
    ++begun_rounds_;
    round_start_s_ = monotonic_s();
  }
  if (begun_rounds_ == 2) changed_.notify_all();
  return true;
}

void Neighbor::end_round() {
  const std::lock_guard lock(mutex_);
  const double round_s = monotonic_s() - round_start_s_;
  ended_rounds_s_ += round_s;
  ++ended_rounds_;
  // The first round ends before the measured time, and rounds after the freeze begin after it.
  if (ended_rounds_ == 1 || (last_measured_round_ && ended_rounds_ > *last_measured_round_)) return;
  activity_.measured_operations += static_cast<std::uint64_t>(operations_per_round_);
  activity_.measured_operations_s += round_s;
}

double Neighbor::active_until(double now_s) const {
  const bool is_running = begun_rounds_ > ended_rounds_;
  return ended_rounds_s_ + (is_running ? now_s - round_start_s_ : 0);
}

}  // namespace busbw
