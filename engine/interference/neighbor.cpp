// The neighbor's thread runs rounds of operations. Before the thread ends, all ranks agree on the number of rounds.
#include "interference/neighbor.hpp"

#include <algorithm>
#include <utility>

#include "backends/observing_communicator.hpp"
#include "measure/clock.hpp"

namespace busbw {
namespace {

/// Operations that a device gets before the thread waits for the device, so that the wait is a small part of the time.
constexpr int kOperationsPerDeviceRound = 16;

}  // namespace

/// Restricts a communicator to the neighbor's part of the buffers. The part before `offset` belongs to the measured
/// operation. Unlike other observing communicators, this one has timestamps, by which loads recognize a device.
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

Neighbor::Neighbor(const NeighborLoad& load, Backend& backend, Team& world, int color,
                   Communicator& measured_communicator, std::size_t offset, std::function<void()> on_failure)
    : load_(load),
      world_(world),
      on_failure_(std::move(on_failure)),
      team_(world.split(load.is_local ? world.rank() : color)),  // local: a team of one rank
      communicator_(backend.connect_further(world, *team_, measured_communicator, /*layer=*/1)),
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
    rounds_.is_frozen = true;
    rounds_.limit = rounds_.begun;  // no further round begins
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
  RankCheckResult neighbor_result = checker_->verify_result(rank_case(), Placement::out_of_place);
  check_result.wrong_elements += neighbor_result.wrong_elements;
  for (WrongElement& wrong : neighbor_result.first_wrong) {
    wrong.place = "neighbor's " + wrong.place;
    if (check_result.first_wrong.size() < Mismatches::kKept) check_result.first_wrong.push_back(std::move(wrong));
  }
}

void Neighbor::start() {
  rounds_ = {};
  thread_ = std::async(std::launch::async, [this] { repeat(); });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return rounds_.begun > 1 || rounds_.has_failed; });
  if (rounds_.has_failed) {
    lock.unlock();
    thread_.get();  // throws the failure
  }
  measured_start_s_ = monotonic_s();
  active_before_measured_s_ = active_until(measured_start_s_);
}

void Neighbor::stop() {
  std::uint64_t own_rounds = 0;
  {
    const std::lock_guard lock(mutex_);
    const double now_s = monotonic_s();
    activity_.measured_s += now_s - measured_start_s_;
    activity_.active_s += active_until(now_s) - active_before_measured_s_;
    rounds_.is_frozen = true;
    own_rounds = rounds_.begun;
    rounds_.last_measured = own_rounds;
  }
  const std::uint64_t max_rounds = std::ranges::max(all_gather_values(*team_, own_rounds));
  {
    const std::lock_guard lock(mutex_);
    rounds_.limit = max_rounds;
    activity_.operations += max_rounds * static_cast<std::uint64_t>(operations_per_round_);
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
      rounds_.has_failed = true;
    }
    changed_.notify_all();
    throw;  // into the future `thread_`, from which `start` or `stop` takes the error
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
    changed_.wait(lock, [this] { return !rounds_.is_frozen || rounds_.limit; });
    if (rounds_.limit && rounds_.begun >= *rounds_.limit) return false;
    ++rounds_.begun;
    round_start_s_ = monotonic_s();
  }
  if (rounds_.begun == 2) changed_.notify_all();  // `start` waits for the beginning of the second round
  return true;
}

void Neighbor::end_round() {
  const std::lock_guard lock(mutex_);
  const double round_s = monotonic_s() - round_start_s_;
  ended_rounds_s_ += round_s;
  ++rounds_.ended;
  const bool ends_before_measured_time = rounds_.ended == 1;  // `start` returns when the second round has begun
  const bool begins_after_measured_time = rounds_.last_measured && rounds_.ended > *rounds_.last_measured;
  if (ends_before_measured_time || begins_after_measured_time) return;
  activity_.measured_operations += static_cast<std::uint64_t>(operations_per_round_);
  activity_.measured_operations_s += round_s;
}

double Neighbor::active_until(double now_s) const {
  const bool is_running = rounds_.begun > rounds_.ended;
  return ended_rounds_s_ + (is_running ? now_s - round_start_s_ : 0);
}

}  // namespace busbw
