#pragma once
// The measuring loop: one batch of iterations on one rank, with a time for each.
#include <cstdint>
#include <vector>

#include "collectives/collective.hpp"
#include "measure/buffers.hpp"
#include "measure/host_stamps.hpp"
#include "support/result.hpp"

namespace busbw {

/// What one rank measured; times are per operation, in seconds.
struct Samples {
  std::vector<double> iteration_s;  // one for each iteration
  double total_s = 0;               // of all iterations, not per operation; see Sampler::clock_matters
  double issue_s = 0;               // what of that the host was busy issuing operations
};

/// How long all iterations of a batch took, and how long the host was busy issuing them; not per operation.
struct BatchTime {
  double total_s = 0;
  double issue_s = 0;
};

/// Runs batches of one case in one placement on one rank.
class Sampler {
 public:
  Sampler(Team& world, Communicator& communicator, const Collective& collective, const CaseBuffers& buffers,
          const RunSettings& settings, Dtype dtype, Redop redop, int root)
      : world_(world),
        communicator_(communicator),
        collective_(collective),
        buffers_(buffers),
        settings_(settings),
        device_stamps_(communicator.stamps()),
        dtype_(dtype),
        redop_(redop),
        root_(root) {}

  /// Untimed iterations in the placement that is timed; at least one, which also connects what connects on first use.
  void warm_up(Placement placement);
  /// settings.iterations timed iterations, appended to `samples`.
  void run_batch(Placement placement, Samples& samples);
  /// Whether an iteration is so short that reading the clock at each of them shows in the total. Then
  /// `time_batch` tells the total.
  bool clock_matters(const Samples& samples) const;
  /// Iterations with the clock read only before and after all of them, as nccl-tests does.
  BatchTime time_batch(Placement placement, std::size_t iterations);
  /// Operations whose times one sample averages over.
  int operations_per_iteration() const { return settings_.aggregated_iterations * collective_.operations_per_run(); }

 private:
  void run_once(Placement placement, std::uint64_t number);

  Team& world_;
  Communicator& communicator_;
  const Collective& collective_;
  const CaseBuffers& buffers_;
  const RunSettings& settings_;
  Stamps* device_stamps_;  // null where the host's clock tells
  HostStamps host_stamps_;
  Dtype dtype_;
  Redop redop_;
  int root_;
};

}  // namespace busbw
