#include "replay/replay_runner.hpp"

#include <utility>

#include "measure/buffers.hpp"
#include "measure/sampling/placement_sampling.hpp"
#include "replay/replay_communicators.hpp"
#include "replay/replay_step.hpp"

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

void run_replay(const MatchedCalls& calls, const RunSettings& settings, Backend& backend, Team& world,
                Communicator& first, const ReplayHooks& hooks) {
  const std::uint64_t buffer_bytes = first.recv_buffer().size() - 2 * kGuardBytes;
  const ReplayCommunicators communicators(calls.program(), backend, world, first);
  const ReplayStep step(calls, communicators, world, buffer_bytes);
  const auto replacement = hooks.replace_step(step);
  // A recording of the replay numbers the ranks by an operation of all of them.
  first.all_reduce(first.send_buffer().data(), first.recv_buffer().data(), 1, Dtype::float32, Redop::sum);
  first.synchronize();

  std::uint64_t check_count = 0;
  for (int cycle = 0; settings.run_cycles == 0 || cycle < settings.run_cycles; ++cycle) {
    std::vector<RankReport> reports(world.rank() == 0 ? static_cast<std::size_t>(world.size()) : 0);
    bool is_correct = true;
    for (int check = 0; is_correct && check < settings.check_iterations; ++check)
      is_correct = store_check_results(
          world, check_calls(calls, communicators, world, ++check_count, hooks.change_result), reports);
    world.enter(Phase::warmup);
    step.fill_buffers();  // the check leaves patterns, which must not be timed
    // The step has its own buffers; these only state the size.
    const CaseBuffers buffers(first, step.shape(0, 1, world.size()), Dtype::uint8, buffer_bytes, 0);
    const SampledCase sampled{replacement ? *replacement : static_cast<const Collective&>(step),
                              buffers,
                              Dtype::uint8,
                              Redop::sum,
                              /*root=*/-1,
                              Placement::out_of_place,
                              world.size()};
    const StopReason stopped_by = sample_placement(world, first, sampled, settings, reports);
    if (world.rank() == 0) hooks.report(cycle, stopped_by, std::move(reports));
  }
  world.enter(Phase::report);
  world.barrier();
}

}  // namespace busbw
