#pragma once
// Samples short iterations on a device. Each rank closes its gate (backends/backend.hpp), issues iterations with
// timestamps between them, and opens the gate when all ranks have issued their iterations. The iterations then run back
// to back, so samples include neither launches nor waits for late ranks.
#include <functional>

#include "measure/sampling/gate_capacity.hpp"
#include "measure/sampling/iteration_runner.hpp"
#include "measure/sampling/sampling_strategy.hpp"

namespace busbw {

/// Adds samples and the device time. The total time, which includes launches, comes from other iterations
/// (TotalTime::separate). Without a usable gate, samples include launches, and the device time is unknown.
class GatedEventStrategy final : public SamplingStrategy {
 public:
  explicit GatedEventStrategy(IterationRunner& runner)
      : runner_(runner), timestamps_(*runner.communicator().timestamps(), runner.has_untimed_barriers()) {}
  /// Adds samples but no device time, because timestamps lengthen short iterations visibly.
  void sample(Samples& batch) override;
  /// Adds the device time of iterations that run behind the gate without timestamps between them. Closes the gate up to
  /// eight times, until all -n iterations have run.
  void complete(Samples& samples) override;

 private:
  /// Gate of this rank, or null if operations cannot be gated.
  Gate* usable_gate() const;
  GateCapacity capacity_of(const Gate& gate) const;
  /// True if work with timestamps fits behind the gate: with -G the graph of a batch, without it one iteration.
  bool fits_timestamps(const Gate& gate) const;
  void sample_graphs(Gate& gate, Samples& batch);
  void sample_iterations(Gate& gate, Samples& batch);
  void sample_without_gate(Samples& batch);
  /// Times the first iteration alone and without a gate. Its wait for other ranks identifies a late rank.
  void time_first_iteration(Samples& batch);
  void add_samples(std::size_t iterations, Samples& batch) const;
  /// Issues `operations` on all ranks before any of them starts, then opens the gate.
  void run_gated(Gate& gate, const std::function<void()>& operations);
  /// Seconds of `count` iterations from iteration `first` on, without timestamps between them.
  double time_gated_iterations(Gate& gate, std::size_t first, std::size_t count);

  IterationRunner& runner_;
  IterationTimestamps timestamps_;
};

}  // namespace busbw
