#include "measure/sampler.hpp"

#include <algorithm>

#include "measure/clock.hpp"

namespace busbw {
namespace {

// nccl-tests' -z.
constexpr int kBarrierAfterOperation = 1;
constexpr int kBarrierAfterIteration = 3;

// Reading the clock and counting progress takes some 30 ns: 0.3 % of an operation this long.
constexpr double kClockMattersBelow_s = 10e-6;
// An event between two operations costs a GPU's stream about a microsecond.
constexpr double kEventMattersBelow_s = 300e-6;
// Iterations between two signs of life to the watch over progress, where every nanosecond counts.
constexpr std::size_t kUnstampedStride = 256;

}  // namespace

void Sampler::run_once(Placement placement, std::uint64_t number) {
  world_.issues(buffers_.region_bytes());
  collective_.run(communicator_, buffers_.call(placement, number, dtype_, redop_, root_));
  if (settings_.blocking == 0) return;
  communicator_.synchronize();
  if (settings_.blocking == kBarrierAfterOperation) world_.barrier();
}

void Sampler::warm_up(Placement placement) {
  const int iterations = std::max(1, settings_.warmup_iterations);
  for (int iteration = 0; iteration < iterations; ++iteration) {
    world_.enter(Phase::warmup);
    run_once(placement, iteration);
  }
  communicator_.synchronize();
}

void Sampler::run_batch(Placement placement, Samples& samples) {
  const auto iterations = static_cast<std::size_t>(settings_.iterations);
  const auto aggregated = static_cast<std::size_t>(settings_.aggregated_iterations);
  const bool barrier_between = settings_.blocking == kBarrierAfterIteration;
  // Iteration i lasts from stamp i to the next one, or where a barrier lies between, from stamp 2 i to the next one.
  const std::size_t stride = barrier_between ? 2 : 1;
  Stamps& stamps = device_stamps_ ? *device_stamps_ : host_stamps_;
  stamps.reset(iterations * stride + 1);
  world_.barrier();
  const double start_s = monotonic_s();
  for (std::size_t iteration = 0; iteration < iterations; ++iteration) {
    world_.enter(Phase::timing);
    stamps.set(iteration * stride);
    for (std::size_t operation = 0; operation < aggregated; ++operation)
      run_once(placement, iteration * aggregated + operation);
    if (barrier_between) {
      stamps.set(iteration * stride + 1);
      world_.barrier();
    }
  }
  stamps.set(iterations * stride);
  const double issued_s = monotonic_s();
  communicator_.synchronize();
  const double done_s = monotonic_s();

  double sum_s = 0;
  for (std::size_t iteration = 0; iteration < iterations; ++iteration) {
    const double elapsed_s = stamps.between_s(iteration * stride, iteration * stride + 1);
    sum_s += elapsed_s;
    samples.iteration_s.push_back(elapsed_s / operations_per_iteration());
  }
  // The device's clock knows nothing of what launching costs, which is part of the time.
  const bool by_host_clock = device_stamps_ && !barrier_between;
  samples.total_s += by_host_clock ? done_s - start_s : sum_s;
  samples.issue_s += by_host_clock ? issued_s - start_s : sum_s;
}

bool Sampler::clock_matters(const Samples& samples) const {
  // With a barrier after each iteration, which is not timed, the clock must be read at each.
  const double limit_s = device_stamps_ ? kEventMattersBelow_s : kClockMattersBelow_s;
  return settings_.blocking != kBarrierAfterIteration &&
         std::ranges::min(samples.iteration_s) * operations_per_iteration() < limit_s;
}

BatchTime Sampler::time_batch(Placement placement, std::size_t iterations) {
  const auto aggregated = static_cast<std::size_t>(settings_.aggregated_iterations);
  world_.barrier();
  const double start_s = monotonic_s();
  for (std::size_t iteration = 0; iteration < iterations; ++iteration) {
    if (iteration % kUnstampedStride == 0) world_.enter(Phase::timing);
    for (std::size_t operation = 0; operation < aggregated; ++operation)
      run_once(placement, iteration * aggregated + operation);
  }
  const double issued_s = monotonic_s();
  communicator_.synchronize();
  return {.total_s = monotonic_s() - start_s, .issue_s = issued_s - start_s};
}

}  // namespace busbw
