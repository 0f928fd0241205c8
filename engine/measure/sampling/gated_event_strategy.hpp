#pragma once
// Samples by timestamps of the device between iterations behind a gate. The gate opens when all ranks have issued
// theirs, so neither launches nor late ranks are part of the samples and of the device time.
#include <functional>

#include "measure/sampling/gate_capacity.hpp"
#include "measure/sampling/iteration_runner.hpp"
#include "measure/sampling/sampling_strategy.hpp"

namespace busbw {

/// The total time is always TotalTime::separate. Without a usable gate, samples include launches, and there is no
/// device time.
class GatedEventStrategy final : public SamplingStrategy {
 public:
  explicit GatedEventStrategy(IterationRunner& runner)
      : runner_(runner), timestamps_(*runner.communicator().timestamps(), runner.has_untimed_barriers()) {}
  /// Adds no device time, because the timestamps are visible in short iterations.
  void sample(Samples& batch) override;
  /// Runs iterations behind the gate without timestamps between them: a batch of -n, or as many as fit if
  /// the gate is closed at most eight times.
  void measure_device_time(Samples& samples) override;

 private:
  /// Gate of this rank, or null if operations cannot be gated.
  Gate* usable_gate() const;
  GateCapacity capacity_of(const Gate& gate) const;
  /// True if iterations with timestamps fit behind the gate: the graph of a batch, otherwise at least one iteration.
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
