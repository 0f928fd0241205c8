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
// Iterations between two signs of life to the watch over progress, where every nanosecond counts.
constexpr std::size_t kUnstampedStride = 256;

}  // namespace

void Sampler::run_once(Placement placement, std::uint64_t number) {
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
  std::vector<double> starts_s(iterations + 1);
  std::vector<double> ends_s(barrier_between ? iterations : 0);
  world_.barrier();
  for (std::size_t iteration = 0; iteration < iterations; ++iteration) {
    world_.enter(Phase::timing);
    starts_s[iteration] = monotonic_s();
    for (std::size_t operation = 0; operation < aggregated; ++operation)
      run_once(placement, iteration * aggregated + operation);
    if (barrier_between) {
      ends_s[iteration] = monotonic_s();
      world_.barrier();
    }
  }
  communicator_.synchronize();
  starts_s[iterations] = monotonic_s();
  for (std::size_t iteration = 0; iteration < iterations; ++iteration) {
    const double end_s = barrier_between ? ends_s[iteration] : starts_s[iteration + 1];
    const double elapsed_s = end_s - starts_s[iteration];
    samples.total_s += elapsed_s;
    samples.iteration_s.push_back(elapsed_s / operations_per_iteration());
  }
}

bool Sampler::clock_matters(const Samples& samples) const {
  // With a barrier after each iteration, which is not timed, the clock must be read at each.
  return settings_.blocking != kBarrierAfterIteration &&
         std::ranges::min(samples.iteration_s) * operations_per_iteration() < kClockMattersBelow_s;
}

double Sampler::time_batch(Placement placement, std::size_t iterations) {
  const auto aggregated = static_cast<std::size_t>(settings_.aggregated_iterations);
  world_.barrier();
  const double start_s = monotonic_s();
  for (std::size_t iteration = 0; iteration < iterations; ++iteration) {
    if (iteration % kUnstampedStride == 0) world_.enter(Phase::timing);
    for (std::size_t operation = 0; operation < aggregated; ++operation)
      run_once(placement, iteration * aggregated + operation);
  }
  communicator_.synchronize();
  return monotonic_s() - start_s;
}

}  // namespace busbw
