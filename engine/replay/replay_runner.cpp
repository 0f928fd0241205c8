// Checks each distinct call of a replay program, then measures its step in the timing loop, once for each cycle.
#include "replay/replay_runner.hpp"

#include <utility>

#include "measure/buffers.hpp"
#include "measure/sampling/series_sampling.hpp"
#include "replay/replay_communicators.hpp"
#include "replay/replay_step.hpp"

namespace busbw {
namespace {

/// Stores the results of all ranks in `reports` on rank 0. On every rank, returns true if all results are correct.
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
  const Collective& timed_step = replacement ? *replacement : static_cast<const Collective&>(step);
  // For a recording of this replay: readers of a trace derive the ranks' numbers from an operation of all ranks.
  first.all_reduce(first.send_buffer().data(), first.recv_buffer().data(), 1, Dtype::float32, Redop::sum);
  first.synchronize();

  std::uint64_t last_seed = 0;  // of the data of checks, the same on all ranks
  for (int cycle = 0; settings.run_cycles == 0 || cycle < settings.run_cycles; ++cycle) {
    std::vector<RankReport> reports(world.rank() == 0 ? static_cast<std::size_t>(world.size()) : 0);
    bool is_correct = true;
    for (int check = 0; is_correct && check < settings.check_iterations; ++check)
      is_correct = store_check_results(
          world, check_calls(calls, communicators, world, ++last_seed, hooks.change_result), reports);
    world.enter(Phase::warmup);
    step.fill_buffers();  // the check leaves patterns, which must not be timed
    // The step uses its own slices of the buffers. The timing loop needs CaseBuffers only for their size.
    const CaseBuffers buffers(first, step.shape(/*count=*/0, /*element_bytes=*/1, world.size()), Dtype::uint8,
                              buffer_bytes, /*unalign_elements=*/0);
    const SampledCase sampled{.collective = timed_step,
                              .buffers = buffers,
                              .dtype = Dtype::uint8,
                              .redop = Redop::sum,
                              .root = -1,
                              .placement = Placement::out_of_place,
                              .ranks_of_largest_group = world.size()};
    const StopReason stopped_by = sample_case(world, first, sampled, settings, reports);
    if (world.rank() == 0) hooks.report(cycle, stopped_by, std::move(reports));
  }
  world.enter(Phase::report);
  world.barrier();
}

}  // namespace busbw
