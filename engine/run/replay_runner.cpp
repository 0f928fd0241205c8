#include "run/replay_runner.hpp"

#include <utility>

#include "measure/sampling/placement_sampling.hpp"
#include "replay/replay_step.hpp"
#include "replay/step_check.hpp"
#include "run/make_row.hpp"
#include "run/rank_faults.hpp"

namespace busbw {
namespace {

/// Stores the results of all ranks in `reports` on rank 0. Returns on every rank if all are correct.
bool store_check_results(Team& world, const RankCheckResult& own, std::vector<RankReport>& reports) {
  auto results = gather_values(world, own);
  bool all_correct = true;
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    all_correct = all_correct && results[rank].wrong_elements == 0;
    reports[rank].check_result = std::move(results[rank]);
  }
  return broadcast_value(world, all_correct);
}

}  // namespace

void run_replay(const RunPlan& plan, Backend& backend, Team& world, Communicator& first,
                const std::optional<Fault>& fault, const std::vector<RankInfo>& ranks, Reporter* reporter) {
  const MatchedCalls& calls = *plan.replay;
  const ReplayCommunicators communicators(calls.program(), backend, world, first);
  const ReplayStep step(calls, communicators, world, plan.max_bytes);
  std::unique_ptr<Collective> delayed_step;
  if (fault && fault->kind == Fault::Kind::delay) delayed_step = make_delayed_collective(step, fault->delay_us);
  const Collective& timed_step = delayed_step ? *delayed_step : static_cast<const Collective&>(step);
  const auto change_result = [&](Communicator& communicator, const RankCase& rank_case, std::byte* recv) {
    if (fault) corrupt_result(*fault, communicator, rank_case, recv);
  };

  // A recording of the replay numbers the ranks by an operation of all of them.
  first.all_reduce(first.send_buffer().data(), first.recv_buffer().data(), 1, Dtype::float32, Redop::sum);
  first.synchronize();

  const Configuration& configuration = plan.sweep.configurations.front();
  const std::uint64_t size = plan.sweep.sizes_bytes.front();
  std::uint64_t check_count = 0;
  for (int cycle = 0; plan.sweep.cycles == 0 || cycle < plan.sweep.cycles; ++cycle) {
    PlacementReport report;
    report.ranks.resize(world.rank() == 0 ? static_cast<std::size_t>(world.size()) : 0);
    bool is_correct = true;
    for (int check = 0; is_correct && check < plan.settings.check_iterations; ++check)
      is_correct = store_check_results(world, check_calls(calls, communicators, world, ++check_count, change_result),
                                       report.ranks);
    world.enter(Phase::warmup);
    step.fill_buffers();  // the check leaves patterns, which must not be timed
    // The step has its own buffers; these only state the size.
    const CaseBuffers buffers(first, step.shape(0, 1, world.size()), configuration.dtype, plan.max_bytes, 0);
    report.stopped_by = sample_placement(world, first,
                                         {timed_step, buffers, configuration.dtype, configuration.redop,
                                          configuration.root, Placement::out_of_place, world.size()},
                                         plan.settings, report.ranks);
    if (world.rank() != 0) continue;
    const CaseLabel label{configuration, size, /*group=*/0, cycle, ranks};
    reporter->rows({make_row(plan, label, {{Placement::out_of_place, std::move(report)}}, check_policy(calls))});
  }
  world.enter(Phase::report);
  world.barrier();
}

}  // namespace busbw
