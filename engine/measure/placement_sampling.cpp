#include "measure/placement_sampling.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "measure/clock.hpp"
#include "measure/combine_ranks.hpp"
#include "measure/rank_messages.hpp"
#include "measure/stopping_rule.hpp"

namespace busbw {
namespace {

void enter(Team& world, Communicator& communicator, Phase phase) {
  world.enter(phase);
  communicator.enter(phase);
}

/// Every field has a name here: one that is new does not compile before it is appended, too.
void append(const Samples& batch, Samples& all) {
  const auto& [iteration_s, left_out, first_iteration_s, total, device_s, device_operations, on_device, before, after] =
      batch;
  all.iteration_s.insert(all.iteration_s.end(), iteration_s.begin(), iteration_s.end());
  all.skipped_iterations += left_out;
  if (!all.first_iteration_s) all.first_iteration_s = first_iteration_s;
  all.total += total;
  all.device_s += device_s;
  all.device_operations += device_operations;
  all.on_device = all.on_device || on_device;
  if (before) all.before = before;
  if (after) all.after = after;
}

/// Rank 0 hears what all ranks have found since they last said so.
void gather_samples(Team& world, const Samples& mine, std::vector<RankReport>& reports_of_all) {
  const auto all = world.gather(samples_message(mine));
  for (std::size_t rank = 0; rank < all.size(); ++rank) append(read_samples(all[rank]), reports_of_all[rank].samples);
}

/// What is run for a batch, by what would show in its time. That is known before only roughly; where the first batch
/// finds iterations shorter than expected, it is mended or run anew, and those after it are run by what it found.
class BatchStrategy {
 public:
  BatchStrategy(Team& world, Sampler& sampler, double expected_iteration_s)
      : world_(world), sampler_(sampler), shows_(decided(expected_iteration_s)) {}

  Samples run() {
    Samples batch = measured();
    if (std::exchange(has_run_, true) || !found_shorter(batch)) return batch;
    // A device that was launched for the first time is warm now: once more from the start.
    if (batch.on_device) return measured();
    batch.total = {};
    sampler_.plain_batch(batch);
    return batch;
  }
  bool launching_shows() const { return shows_ == VisibleOverhead::launching; }

 private:
  Samples measured() {
    Samples batch;
    if (shows_ == VisibleOverhead::nothing) {
      sampler_.batch_with_total(batch);
      return batch;
    }
    // The time first, as nccl-tests, which takes it right after its warm-up.
    sampler_.plain_batch(batch);
    if (shows_ == VisibleOverhead::launching)
      sampler_.gated_stamped_batch(batch);
    else
      sampler_.stamped_batch(batch);
    return batch;
  }

  bool found_shorter(const Samples& batch) {
    const VisibleOverhead expected = shows_;
    if (expected == VisibleOverhead::launching) return false;
    shows_ = std::min(expected, decided(std::ranges::min(batch.iteration_s) * sampler_.operations_per_iteration()));
    return shows_ != expected;
  }
  /// By rank 0, for all.
  VisibleOverhead decided(double iteration_s) { return broadcast_from_rank0(world_, sampler_.visible_overhead(iteration_s)); }

  Team& world_;
  Sampler& sampler_;
  VisibleOverhead shows_;
  bool has_run_ = false;
};

}  // namespace

StopReason sample_placement(Team& world, Communicator& communicator, const SampledCase& what,
                           const RunSettings& settings, std::vector<RankReport>& reports_of_all) {
  enter(world, communicator, Phase::warmup);
  Sampler sampler(world, communicator, what, settings);
  Samples around;
  const double expected_iteration_s = sampler.warm_up();
  around.before = communicator.condition();
  enter(world, communicator, Phase::timing);
  BatchStrategy batches(world, sampler, expected_iteration_s);

  const StoppingRule rule{settings.target_ci, settings.max_time_s};
  const bool has_rule = rule.target_ci || rule.max_time_s;
  const double began_s = monotonic_s();
  std::size_t next_look = 0;
  std::optional<StopReason> decision;
  while (!decision) {
    gather_samples(world, batches.run(), reports_of_all);
    if (!has_rule) {
      decision = StopReason::iterations;
      break;
    }
    if (world.rank() == 0) {
      // Looking costs a sort of all samples: only when there are noticeably more.
      const std::size_t count = reports_of_all.front().samples.iteration_s.size();
      const double elapsed_s = monotonic_s() - began_s;
      if (count >= next_look || elapsed_s >= rule.max_time_s.value_or(elapsed_s + 1)) {
        decision = rule.decide(last_rank_s(reports_of_all), elapsed_s);
        next_look = count + count / 8;
      }
    }
    decision = broadcast_from_rank0(world, decision);
  }
  // Longer operations have told it between their stamps.
  if (batches.launching_shows()) sampler.gated_total_batches(around);
  gather_samples(world, around, reports_of_all);
  return *decision;
}

}  // namespace busbw
