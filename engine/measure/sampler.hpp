#pragma once
// The measuring loops: batches of iterations of one placement of one case on one rank, and what each batch tells.
#include <cstdint>
#include <functional>
#include <memory>

#include "collectives/collective.hpp"
#include "measure/buffers.hpp"
#include "measure/gate_capacity.hpp"
#include "measure/host_timestamps.hpp"
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

/// What of measuring would show in the time, by the length of iterations, from the shortest on.
enum class VisibleOverhead {
  launching,  // and stamps: time without stamps, then samples held back, then the device's time held back without
              // stamps
  stamps,  // time without stamps, then samples, which tell the device's time
  nothing,  // one batch tells all
};

class Sampler {
 public:
  /// All must outlive it.
  Sampler(Team& world, Communicator& communicator, const SampledCase& what, const RunSettings& settings)
      : world_(world),
        issued_(world.issued()),
        communicator_(communicator),
        case_(what),
        settings_(settings),
        device_stamps_(communicator.stamps()),
        on_device_(device_stamps_ != nullptr) {}

  /// Untimed iterations, at least one, which also connects what connects on first use. Seconds for one of them, rather
  /// too many than too few.
  double warm_up();
  /// settings.iterations iterations, with -G all launches of them: the total, with the clock read only before and after
  /// all, as in nccl-tests.
  void plain_batch(Samples& samples);
  /// As many between stamps: samples and the device's time. Graphs, here and below, give no sample of their first
  /// iteration, in which a rank waits for others' launches.
  void stamped_batch(Samples& samples);
  /// The same, and the total.
  void batch_with_total(Samples& samples);
  /// As many between stamps, held back until all ranks have issued theirs: as many at a time as the gate has room for.
  /// Samples alone, as stamps show in them; where nothing can be held back they hold launching, too.
  void gated_stamped_batch(Samples& samples);
  /// Batches of iterations that all ranks issue before any starts: the device's time, over settings.iterations or as
  /// many as fit into a few batches. Nothing where operations cannot be held back.
  void gated_total_batches(Samples& samples);

  VisibleOverhead visible_overhead(double iteration_s) const;
  /// Operations whose times one sample averages over.
  int operations_per_iteration() const {
    return settings_.aggregated_iterations * case_.collective.operations_per_run();
  }

 private:
  bool records() const { return settings_.graph_launches > 0; }
  std::size_t iterations() const { return static_cast<std::size_t>(settings_.iterations); }
  std::uint64_t operations_per_launch() const {
    return iterations() * static_cast<std::uint64_t>(operations_per_iteration());
  }
  /// Of what is stamped; 1 without -G.
  std::size_t stamped_launches() const;
  /// All operations of one iteration, with the waiting that -z asks for but the barrier of -z 3.
  void run_iteration(std::uint64_t iteration);
  /// One operation, and that waiting.
  void run_once(std::uint64_t number);
  void call(std::uint64_t number);
  /// All iterations of a batch, with nothing between them that could be left out.
  void run_plain();
  /// A barrier, and one untimed operation behind it. Ranks leave a barrier one after the other, over milliseconds in a
  /// large job, and the first of them would wait for the last within what is timed; an operation ends on all at about
  /// the same moment. And, as in nccl-tests, a device that has idled would take longer over the first.
  void align_ranks();
  std::unique_ptr<OperationGraph> record(const std::function<void()>& operations);
  void record_plain();
  void record_stamped();
  /// When to ask the device of its condition.
  enum class ClockQuery { never, at_work, afterwards };
  /// What stamps tell beside samples. It holds launching where that shows, and stamps where those do.
  struct BatchTimes {
    HostTiming total = {};
    double device_s = 0;
    std::uint64_t device_operations = 0;
  };
  /// All launches, not held back; the device is asked at the last one.
  BatchTimes launch_stamped(Samples& samples, ClockQuery at_last);
  BatchTimes launch_stamped_once(Samples& samples, ClockQuery ask);
  /// Asking must not be timed; at work is best where the batch hides it.
  ClockQuery clock_query_when_timed() const;
  /// Null where nothing can hold back what is stamped.
  Gate* gate_for_stamps() const;
  /// Null where nothing can be held back.
  Gate* usable_gate() const;
  /// Issues them on all ranks before any starts. The gate is open again.
  void run_gated(Gate& gate, const std::function<void()>& operations);
  void gated_stamped_launch(Gate& gate, Samples& samples, bool is_last);
  void gated_stamped_iterations(Gate& gate, Samples& samples);
  /// By itself and not held back: what it waits for others tells who came late.
  void time_first_iteration(Samples& samples);
  /// Whether a rank may have waited for others in the first iteration.
  enum class FirstIteration { waited, began_with_all };
  BatchTimes read_stamps(Samples& samples, FirstIteration first);
  static void add_device_time(Samples& samples, const BatchTimes& told);
  /// Seconds from the first iteration's start to the last one's end; the gate is open again.
  double gated_batch_s(Gate& gate, std::size_t first, std::size_t count);
  GateCapacity capacity_of(const Gate& gate) const;

  Team& world_;
  IssuedOperations& issued_;  // this rank's
  Communicator& communicator_;
  SampledCase case_;
  const RunSettings& settings_;
  Timestamps* device_stamps_;  // null where the host's clock tells
  bool on_device_;
  double expected_iteration_s_ = 0;  // from the warm-up
  HostTimestamps host_stamps_;
  std::unique_ptr<OperationGraph> plain_;
  std::unique_ptr<OperationGraph> stamped_;
};

}  // namespace busbw
