// Runs batches of each series in turn on all ranks. After each batch, rank 0 gathers the samples and decides for all
// ranks whether the series needs more.
#include "measure/sampling/series_sampling.hpp"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>

#include "measure/clock.hpp"
#include "measure/combine_ranks.hpp"
#include "measure/sampling/stopping_rule.hpp"
#include "measure/sampling/strategy_selection.hpp"

namespace busbw {
namespace {

/// Minimum number of rounds if several series are compared. A round is one batch of each series. From two rounds on,
/// the batches of the series alternate. Thus a slow change of the machine's speed affects all series.
constexpr int kMinComparedRounds = 2;

void enter(Team& world, Communicator& communicator, Phase phase) {
  world.enter(phase);
  communicator.enter(phase);
}

/// Appends a batch. The binding names every field, so that a new field does not compile until it is appended.
void append(const Samples& batch, Samples& all) {
  const auto& [operation_s, skipped_iterations, first_iteration_s, start_delay, total, device_s, device_operations,
               clock, clock_before, clock_after, algorithms] = batch;
  all.operation_s.insert(all.operation_s.end(), operation_s.begin(), operation_s.end());
  all.skipped_iterations += skipped_iterations;
  if (!all.first_iteration_s) all.first_iteration_s = first_iteration_s;
  if (start_delay) all.start_delay = start_delay;
  all.total += total;
  all.device_s += device_s;
  all.device_operations += device_operations;
  if (clock != SampleClock::host) all.clock = clock;  // `host` is also the default of parts without samples
  if (clock_before) all.clock_before = clock_before;
  if (clock_after) all.clock_after = clock_after;
  all.algorithms.insert(all.algorithms.end(), algorithms.begin(), algorithms.end());
}

/// Sends this rank's new samples to rank 0, which appends those of all ranks to `reports_of_all`.
void gather_samples(Team& world, const Samples& own, std::vector<RankReport>& reports_of_all) {
  const std::vector<Samples> all = gather_values(world, own);
  for (std::size_t rank = 0; rank < all.size(); ++rank) append(all[rank], reports_of_all[rank].samples);
}

Samples run_batch(IterationRunner& runner, SamplingStrategy& strategy, VisibleOverhead overhead) {
  Samples batch;
  // The total is measured first, right after the warm-up, as in nccl-tests.
  if (total_time(overhead) == TotalTime::separate) batch.total = runner.time_batch();
  strategy.sample(batch);
  return batch;
}

/// Warms up and returns the estimated seconds of one iteration. Observes the algorithms of single operations: a library
/// may choose others for a group of operations (-m) and for graphs.
double warm_up(IterationRunner& runner, std::vector<AlgorithmChoice>& algorithms) {
  if (runner.uses_graphs() || runner.settings().aggregated_iterations > 1) return runner.warm_up();
  runner.communicator().begin_observation();
  const double iteration_s = runner.warm_up();
  algorithms = runner.communicator().end_observation();
  return iteration_s;
}

/// Rank 0 decides for all ranks, from the longest iteration of all ranks. Ranks without data to move have shorter ones.
VisibleOverhead decide_overhead(const IterationRunner& runner, double own_iteration_s) {
  const std::vector<double> all_iterations_s = gather_values(runner.world(), own_iteration_s);
  VisibleOverhead overhead = VisibleOverhead::none;
  if (runner.world().rank() == 0) overhead = visible_overhead(runner, std::ranges::max(all_iterations_s));
  return broadcast_value(runner.world(), overhead);
}

/// Applies the stopping rule after each batch. Rank 0 decides for all ranks if the row has enough samples.
class StopDecision {
 public:
  explicit StopDecision(const RunSettings& settings)
      : rule_{settings.target_ci, settings.max_time_s}, start_s_(monotonic_s()) {}

  /// Returns the reason to stop after a batch, or nothing to continue.
  std::optional<StopReason> decide(Team& world, const std::vector<RankReport>& reports_of_all) {
    if (rule_.stops_after_one_batch()) return StopReason::iterations;
    std::optional<StopReason> reason;
    if (world.rank() == 0) reason = decide_on_rank0(reports_of_all);
    return broadcast_value(world, reason);
  }

 private:
  std::optional<StopReason> decide_on_rank0(const std::vector<RankReport>& reports_of_all) {
    const std::size_t count = reports_of_all.front().samples.operation_s.size();
    const double elapsed_s = monotonic_s() - start_s_;
    const bool is_time_over = rule_.max_time_s && elapsed_s >= *rule_.max_time_s;
    // The rule sorts all samples, so it is applied only after an eighth more samples.
    if (count < next_check_count_ && !is_time_over) return std::nullopt;
    next_check_count_ = count + count / 8;
    return rule_.decide(last_rank_s(reports_of_all), elapsed_s);
  }

  StoppingRule rule_;
  double start_s_;
  std::size_t next_check_count_ = 0;
};

/// Samples one series. All ranks make the same calls in the same order.
class SeriesSampler {
 public:
  SeriesSampler(Team& world, Communicator& communicator, const Series& series, const RunSettings& settings)
      : world_(world),
        communicator_(communicator),
        series_(series),
        settings_(settings),
        runner_(world, communicator, series.sampled_case, settings) {}

  /// Runs the untimed iterations and selects the strategy.
  void begin() {
    enter(world_, communicator_, Phase::warmup);
    with_activity([&] { overhead_ = decide_overhead(runner_, warm_up(runner_, outside_batches_.algorithms)); });
    outside_batches_.clock_before = communicator_.clock_state();
    enter(world_, communicator_, Phase::timing);
    strategy_ = make_strategy(runner_, overhead_);
    stop_.emplace(settings_);
  }

  void sample_batch() {
    Samples batch;
    with_activity([&] { batch = is_first_batch_ ? run_first_batch() : run_batch(runner_, *strategy_, overhead_); });
    is_first_batch_ = false;
    gather_samples(world_, batch, series_.reports_of_all);
    if (!stop_reason_) stop_reason_ = stop_->decide(world_, series_.reports_of_all);
  }

  /// Adds values that the strategy measures outside of batches.
  void complete() {
    with_activity([&] { strategy_->complete(outside_batches_); });
    gather_samples(world_, outside_batches_, series_.reports_of_all);
  }

  /// Reason to stop; none while the series needs more batches.
  std::optional<StopReason> stop_reason() const { return stop_reason_; }

 private:
  /// Selects the strategy again, from the time of the first batch, because iterations of the warm-up may be slower. If
  /// the strategy changes, the samples of this batch are discarded and another batch is run.
  Samples run_first_batch() {
    Samples batch = run_batch(runner_, *strategy_, overhead_);
    if (overhead_ == VisibleOverhead::launches) return batch;  // no other strategy excludes more overhead
    const double shortest_iteration_s = std::ranges::min(batch.operation_s) * runner_.operations_per_iteration();
    const VisibleOverhead measured = decide_overhead(runner_, shortest_iteration_s);
    const bool strategy_excludes_enough = measured <= overhead_;  // enumerators in increasing order of overhead
    if (strategy_excludes_enough) return batch;
    overhead_ = measured;
    strategy_ = make_strategy(runner_, overhead_);
    // The samples of the first batch contain overhead that the new strategy excludes: slow first launches on a device,
    // readings of the clock on the host.
    return run_batch(runner_, *strategy_, overhead_);
  }

  template <class Function>
  void with_activity(const Function& function) {
    if (series_.activity) series_.activity->start();
    function();
    if (series_.activity) series_.activity->stop();
  }

  Team& world_;
  Communicator& communicator_;
  const Series& series_;
  const RunSettings& settings_;
  IterationRunner runner_;
  VisibleOverhead overhead_ = VisibleOverhead::none;
  std::unique_ptr<SamplingStrategy> strategy_;
  std::optional<StopDecision> stop_;
  std::optional<StopReason> stop_reason_;
  Samples outside_batches_;  // values from before and after the batches: clock state, algorithms, device times
  bool is_first_batch_ = true;
};

}  // namespace

StopReason sample_series(Team& world, Communicator& communicator, std::span<const Series> series,
                         const RunSettings& settings) {
  std::deque<SeriesSampler> samplers;
  for (const Series& one_series : series) samplers.emplace_back(world, communicator, one_series, settings).begin();
  const int min_rounds = samplers.size() > 1 ? kMinComparedRounds : 1;
  const auto has_ended = [](const SeriesSampler& sampler) { return sampler.stop_reason().has_value(); };
  // Each round samples all series, so a series with a reason to stop gets more samples until every series has one.
  for (int round = 1; round <= min_rounds || !std::ranges::all_of(samplers, has_ended); ++round)
    for (SeriesSampler& sampler : samplers) sampler.sample_batch();
  for (SeriesSampler& sampler : samplers) sampler.complete();
  return *samplers.front().stop_reason();  // the first series has the row in the table
}

StopReason sample_case(Team& world, Communicator& communicator, const SampledCase& sampled_case,
                       const RunSettings& settings, std::vector<RankReport>& reports_of_all) {
  const Series series{sampled_case, reports_of_all};
  return sample_series(world, communicator, {&series, 1}, settings);
}

}  // namespace busbw
