#pragma once
// Measuring loops: batches of iterations of one placement of one case on one rank.
#include <cstdint>
#include <functional>
#include <memory>

#include "collectives/collective.hpp"
#include "measure/buffers.hpp"
#include "measure/sampling/gate_capacity.hpp"
#include "measure/sampling/host_timestamps.hpp"
#include "measure/samples.hpp"
#include "values/run_result.hpp"

namespace busbw {

/// One case in one placement, as the measuring loops run it.
struct SampledCase {
  const Collective& collective;
  const CaseBuffers& buffers;
  Dtype dtype;
  Redop redop;
  int root;
  Placement placement;
  int ranks_of_largest_group;
};

/// Measuring overhead that is visible in an iteration's time, ordered from the shortest iterations to the longest.
enum class VisibleOverhead {
  /// Launches and timestamps. Three measurements: time without timestamps, gated samples, gated device time without
  /// timestamps.
  launching,
  /// Timestamps only. Two measurements: time without timestamps, then samples, which also give the device time.
  timestamps,
  /// No overhead. One batch gives all figures.
  nothing,
};

class Sampler {
 public:
  /// All arguments must outlive the sampler.
  Sampler(Team& world, Communicator& communicator, const SampledCase& sampled_case, const RunSettings& settings)
      : world_(world),
        issued_(world.issued()),
        communicator_(communicator),
        case_(sampled_case),
        settings_(settings),
        device_timestamps_(communicator.stamps()),
        on_device_(device_timestamps_ != nullptr) {}

  /// Runs the untimed iterations, at least one. They also open connections that are made on first use. Returns the
  /// seconds of one iteration, rather too many than too few.
  double warm_up();
  /// Measures the total time of settings.iterations iterations, with -G of all launches. The clock is read only before
  /// and after all, as in nccl-tests.
  void plain_batch(Samples& samples);
  /// Measures samples and the device time of the same iterations with timestamps. Graphs, here and below, give no
  /// sample of their first iteration, in which a rank waits for the launches of other ranks.
  void stamped_batch(Samples& samples);
  /// As stamped_batch, with the total time.
  void batch_with_total(Samples& samples);
  /// Measures samples of the same iterations, gated until all ranks have issued theirs. The gate's capacity limits the
  /// iterations at a time. Adds no device time, because the timestamps are visible. Without a usable gate, the samples
  /// include launches.
  void gated_stamped_batch(Samples& samples);
  /// Measures the device time of gated batches without timestamps between iterations. Covers settings.iterations, or as
  /// many as fit into a few batches. Does nothing if operations cannot be gated.
  void gated_total_batches(Samples& samples);

  VisibleOverhead visible_overhead(double iteration_s) const;
  /// Number of operations that one sample averages over.
  int operations_per_iteration() const {
    return settings_.aggregated_iterations * case_.collective.operations_per_run();
  }

 private:
  bool captures_graph() const { return settings_.graph_launches > 0; }
  std::size_t iterations() const { return static_cast<std::size_t>(settings_.iterations); }
  std::uint64_t operations_per_launch() const {
    return iterations() * static_cast<std::uint64_t>(operations_per_iteration());
  }
  /// Launches of the timestamped iterations; 1 without -G.
  std::size_t stamped_launches() const;
  /// Issues all operations of one iteration with the waits of -z, except the barrier of -z 3.
  void run_iteration(std::uint64_t iteration);
  /// Issues one operation with the waits of -z.
  void run_once(std::uint64_t number);
  void call(std::uint64_t number);
  /// Runs all iterations of a batch with nothing avoidable between them.
  void run_plain();
  /// Aligns the ranks with a barrier and one untimed operation. In a large job, ranks leave a barrier over
  /// milliseconds, and the first would wait for the last within the timed part. An operation ends on all ranks at about
  /// the same moment. It also wakes an idle device, as in nccl-tests.
  void align_ranks();
  std::unique_ptr<OperationGraph> capture(const std::function<void()>& operations);
  void capture_plain();
  void capture_stamped();
  /// Moment at which the device's clock state is queried.
  enum class ClockQuery { never, while_running, after_completion };
  /// Times from timestamps other than the samples. They include visible launch and timestamp overhead.
  struct BatchTimes {
    HostTiming total = {};
    double device_s = 0;
    std::uint64_t device_operations = 0;
  };
  /// Runs all launches without a gate. The device's clocks are queried at the last one.
  BatchTimes launch_stamped(Samples& samples, ClockQuery query_at_last);
  BatchTimes launch_stamped_once(Samples& samples, ClockQuery query);
  /// Selects when to query the clocks. The query must not be timed; during the batch is best if the batch hides it.
  ClockQuery clock_query_when_timed() const;
  /// Returns the gate for timestamped iterations, or null if they cannot be gated.
  Gate* gate_for_stamps() const;
  /// Returns the gate, or null if operations cannot be gated.
  Gate* usable_gate() const;
  /// Issues `operations` on all ranks before any of them starts, then opens the gate.
  void run_gated(Gate& gate, const std::function<void()>& operations);
  void gated_stamped_launch(Gate& gate, Samples& samples, bool is_last);
  void gated_stamped_iterations(Gate& gate, Samples& samples);
  /// Times the first iteration alone and without a gate. Its wait for other ranks identifies a late rank.
  void time_first_iteration(Samples& samples);
  /// Start of the first iteration: this rank may have waited for others, or all ranks began together.
  enum class FirstIteration { waited, began_with_all };
  BatchTimes read_timestamps(Samples& samples, FirstIteration first);
  static void add_device_time(Samples& samples, const BatchTimes& times);
  /// Seconds from the start of the first iteration to the end of the last. The gate is open afterwards.
  double gated_batch_s(Gate& gate, std::size_t first, std::size_t count);
  GateCapacity capacity_of(const Gate& gate) const;

  Team& world_;
  IssuedOperations& issued_;  // of this rank
  Communicator& communicator_;
  SampledCase case_;
  const RunSettings& settings_;
  Timestamps* device_timestamps_;  // null if the host clock is used
  bool on_device_;
  double expected_iteration_s_ = 0;  // from the warm-up
  HostTimestamps host_timestamps_;
  std::unique_ptr<OperationGraph> plain_;
  std::unique_ptr<OperationGraph> stamped_;
};

}  // namespace busbw
