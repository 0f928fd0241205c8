#include "measure/sampling/placement_sampling.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "measure/clock.hpp"
#include "measure/combine_ranks.hpp"
#include "measure/rank_messages.hpp"
#include "measure/sampling/stopping_rule.hpp"

namespace busbw {
namespace {

void enter(Team& world, Communicator& communicator, Phase phase) {
  world.enter(phase);
  communicator.enter(phase);
}

/// Appends a batch. The binding names every field, so that a new field does not compile until it is appended.
void append(const Samples& batch, Samples& all) {
  const auto& [iteration_s, skipped_iterations, first_iteration_s, total, device_s, device_operations, on_device,
               before, after] = batch;
  all.iteration_s.insert(all.iteration_s.end(), iteration_s.begin(), iteration_s.end());
  all.skipped_iterations += skipped_iterations;
  if (!all.first_iteration_s) all.first_iteration_s = first_iteration_s;
  all.total += total;
  all.device_s += device_s;
  all.device_operations += device_operations;
  all.on_device = all.on_device || on_device;
  if (before) all.before = before;
  if (after) all.after = after;
}

/// Sends this rank's new samples to rank 0, which appends those of all ranks to `reports_of_all`.
void gather_samples(Team& world, const Samples& own, std::vector<RankReport>& reports_of_all) {
  const auto all = world.gather(samples_message(own));
  for (std::size_t rank = 0; rank < all.size(); ++rank) append(read_samples(all[rank]), reports_of_all[rank].samples);
}

/// Selects how a batch runs, by the overhead that is visible in an iteration's time. Before the first batch this time
/// is only estimated. If the first batch finds shorter iterations than expected, it is completed or run again. Later
/// batches use the measured time.
class BatchStrategy {
 public:
  BatchStrategy(Team& world, Sampler& sampler, double expected_iteration_s)
      : world_(world), sampler_(sampler), overhead_(decide(expected_iteration_s)) {}

  Samples run() {
    Samples batch = measure();
    if (std::exchange(has_run_, true) || !is_shorter_than_expected(batch)) return batch;
    // The first launch warmed up the device, so the batch is measured again from the start.
    if (batch.on_device) return measure();
    batch.total = {};
    sampler_.plain_batch(batch);
    return batch;
  }
  bool launches_are_visible() const { return overhead_ == VisibleOverhead::launching; }

 private:
  Samples measure() {
    Samples batch;
    if (overhead_ == VisibleOverhead::nothing) {
      sampler_.batch_with_total(batch);
      return batch;
    }
    // Measures the time first, right after the warm-up, as nccl-tests does.
    sampler_.plain_batch(batch);
    if (overhead_ == VisibleOverhead::launching)
      sampler_.gated_stamped_batch(batch);
    else
      sampler_.stamped_batch(batch);
    return batch;
  }

  bool is_shorter_than_expected(const Samples& batch) {
    const VisibleOverhead expected = overhead_;
    if (expected == VisibleOverhead::launching) return false;
    overhead_ = std::min(expected, decide(std::ranges::min(batch.iteration_s) * sampler_.operations_per_iteration()));
    return overhead_ != expected;
  }
  /// Decides on rank 0 for all ranks.
  VisibleOverhead decide(double iteration_s) {
    return broadcast_from_rank0(world_, sampler_.visible_overhead(iteration_s));
  }

  Team& world_;
  Sampler& sampler_;
  VisibleOverhead overhead_;
  bool has_run_ = false;
};

}  // namespace

StopReason sample_placement(Team& world, Communicator& communicator, const SampledCase& sampled_case,
                            const RunSettings& settings, std::vector<RankReport>& reports_of_all) {
  enter(world, communicator, Phase::warmup);
  Sampler sampler(world, communicator, sampled_case, settings);
  Samples outside_batches;
  const double expected_iteration_s = sampler.warm_up();
  outside_batches.before = communicator.condition();
  enter(world, communicator, Phase::timing);
  BatchStrategy batches(world, sampler, expected_iteration_s);

  const StoppingRule rule{settings.target_ci, settings.max_time_s};
  const bool has_rule = rule.target_ci || rule.max_time_s;
  const double began_s = monotonic_s();
  std::size_t next_check_count = 0;
  std::optional<StopReason> decision;
  while (!decision) {
    gather_samples(world, batches.run(), reports_of_all);
    if (!has_rule) {
      decision = StopReason::iterations;
      break;
    }
    if (world.rank() == 0) {
      // A decision sorts all samples, so it waits until there are noticeably more.
      const std::size_t count = reports_of_all.front().samples.iteration_s.size();
      const double elapsed_s = monotonic_s() - began_s;
      if (count >= next_check_count || elapsed_s >= rule.max_time_s.value_or(elapsed_s + 1)) {
        decision = rule.decide(last_rank_s(reports_of_all), elapsed_s);
        next_check_count = count + count / 8;
      }
    }
    decision = broadcast_from_rank0(world, decision);
  }
  // If launches are not visible, the timestamps have already given the device time.
  if (batches.launches_are_visible()) sampler.gated_total_batches(outside_batches);
  gather_samples(world, outside_batches, reports_of_all);
  return *decision;
}

}  // namespace busbw
