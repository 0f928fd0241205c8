#pragma once
// Issues the runs of one case in one placement on one rank. The sampling strategies decide what is timed.
//
// - Run: one call of Collective::run, with one operation, or two in a ping-pong (Collective::operations_per_run).
// - Iteration: -m runs. Its time, divided by its operations, is one sample.
// - Batch: -n iterations, which a CUDA graph can hold (-G).
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "collectives/collective.hpp"
#include "measure/buffers.hpp"
#include "measure/samples.hpp"
#include "measure/sampling/iteration_timestamps.hpp"
#include "values/run_result.hpp"

namespace busbw {

/// One case in one placement, as the timing loop runs it.
struct SampledCase {
  const Collective& collective;
  const CaseBuffers& buffers;
  Dtype dtype;
  Redop redop;
  int root;
  Placement placement;
  int ranks_of_largest_group;
};

/// Runs the iterations of one case on one rank. All ranks make the same calls in the same order.
class IterationRunner {
 public:
  /// All arguments must outlive the runner.
  IterationRunner(Team& world, Communicator& communicator, const SampledCase& sampled_case, const RunSettings& settings)
      : world_(world), issued_(world.issued()), communicator_(communicator), case_(sampled_case), settings_(settings) {}
  /// Runs the iterations of `other`, which must be warmed up, through another handle of its communicator.
  IterationRunner(const IterationRunner& other, Communicator& communicator)
      : world_(other.world_),
        issued_(other.issued_),
        communicator_(communicator),
        case_(other.case_),
        settings_(other.settings_),
        expected_iteration_s_(other.expected_iteration_s_) {}

  /// Makes -w untimed runs, at least one. The first run also opens connections that are made on first use. Returns the
  /// estimated seconds of one iteration. The estimate may be too long, because the first run is often slow.
  double warm_up();
  /// Aligns the ranks with a barrier and one untimed run. In a large job, ranks leave a barrier milliseconds apart, and
  /// the first would wait for the last within the timed part. A run ends on all ranks at about the same moment. The
  /// untimed run also wakes an idle device, as in nccl-tests. A single rank on the host needs only the barrier.
  void align_ranks();
  /// Issues one run with the waits of -z. `number` selects the region of the buffers (CaseBuffers::call).
  void run_collective(std::uint64_t number);
  /// Issues all runs of one iteration with the waits of -z, except the barrier of -z 3.
  void run_iteration(std::uint64_t iteration);
  /// Runs `count` iterations and takes timestamps around each. With -z 3, returns the host seconds of the iterations
  /// without the untimed barriers between them. Otherwise returns 0.
  double run_with_timestamps(IterationTimestamps& timestamps, std::size_t count);
  /// Times a batch by the host clock, with -G all launches of its graph. The clock is read only at the start and the
  /// end, as in nccl-tests.
  HostTiming time_batch();

  /// Captures `operations` and launches the graph once, untimed, which uploads it to the device.
  std::unique_ptr<OperationGraph> capture(const std::function<void()>& operations);
  /// Graph of a batch. The first call captures the graph.
  OperationGraph& batch_graph();
  /// Graph of a batch with timestamps around each iteration. The first call captures the graph, and every launch sets
  /// the `timestamps` of this call. Later calls ignore `timestamps`.
  OperationGraph& batch_graph_with_timestamps(IterationTimestamps& timestamps);

  Team& world() const { return world_; }
  Communicator& communicator() const { return communicator_; }
  /// True if operations run asynchronously, on a device that has timestamps.
  bool has_device_clock() const { return communicator_.timestamps() != nullptr; }
  const RunSettings& settings() const { return settings_; }
  bool uses_graphs() const { return settings_.graph_launches > 0; }
  /// True if the host waits after each run or iteration (-z).
  bool waits() const { return settings_.blocking != 0; }
  /// True if an untimed barrier follows each iteration (-z 3).
  bool has_untimed_barriers() const;
  /// Iterations of a batch.
  std::size_t iterations() const { return static_cast<std::size_t>(settings_.iterations); }
  /// Number of operations that one sample averages over.
  int operations_per_iteration() const {
    return settings_.aggregated_iterations * case_.collective.operations_per_run();
  }
  std::uint64_t operations_per_batch() const {
    return iterations() * static_cast<std::uint64_t>(operations_per_iteration());
  }
  /// Weighted number of communicator calls in one run of a rank in the largest group (GateCapacity).
  std::size_t weighted_calls_per_run() const {
    return static_cast<std::size_t>(case_.collective.weighted_calls_per_run(case_.ranks_of_largest_group));
  }
  /// Estimated seconds of one iteration from the warm-up; 0 before it.
  double expected_iteration_s() const { return expected_iteration_s_; }

 private:
  /// Issues one run without the waits of -z.
  void issue_collective(std::uint64_t number);
  /// Runs an iteration, takes the timestamp of its end, and enters the untimed barrier of -z 3. Returns the host
  /// seconds of the iteration.
  double run_with_untimed_barrier(IterationTimestamps& timestamps, std::size_t iteration);
  /// Runs a batch without timestamps, so that almost no host time lies between its iterations.
  void run_batch();

  Team& world_;
  IssuedOperations& issued_;  // this rank's counter, for the watchdog
  Communicator& communicator_;
  SampledCase case_;
  const RunSettings& settings_;
  double expected_iteration_s_ = 0;
  std::unique_ptr<OperationGraph> batch_graph_;
  std::unique_ptr<OperationGraph> batch_graph_with_timestamps_;
};

}  // namespace busbw
