#pragma once
// Computes how many operations fit behind a closed gate, which holds the operations of a rank back on the device (Gate,
// backends/backend.hpp). A rank that issues more operations blocks before it opens the gate.
#include <cstddef>

namespace busbw {

/// Weighted calls in a batch, or in a graph of the batch, on a rank of the largest group. All ranks use these numbers,
/// because they wait for each other behind the gate.
struct BatchCalls {
  std::size_t per_run;        // weight of one run of the collective (Collective::weighted_calls_per_run)
  std::size_t per_iteration;  // weight of all runs of one iteration (-m)
  std::size_t iterations;     // number of iterations in the batch
};

/// Capacity of a closed gate for a batch. Each rank first issues one untimed run, which ends when the last rank
/// has opened its gate. All results leave room for this run.
class GateCapacity {
 public:
  /// `capacity` is Gate::capacity.
  GateCapacity(std::size_t capacity, const BatchCalls& calls) : capacity_(capacity), calls_(calls) {}

  /// Number of iterations that fit between two timestamps, at most BatchCalls::iterations.
  std::size_t iterations() const;
  /// Number of iterations that fit with a timestamp before each and one at the end. May exceed BatchCalls::iterations.
  std::size_t timestamped_iterations() const;
  /// True if the launch of a graph of all iterations fits between two timestamps.
  bool fits_graph() const;
  /// True if the launch of such a graph fits with a timestamp before each iteration and after the last.
  bool fits_timestamped_graph() const;

 private:
  /// True if a graph behind the gate may have this many nodes. Does not count calls and timestamps outside of the
  /// graph: the callers compare these, and the launch of the graph, with the capacity.
  bool fits_nodes(std::size_t nodes) const;

  std::size_t capacity_;
  BatchCalls calls_;
};

}  // namespace busbw
