// Start delays of a rank with a collective that sleeps before its operation.
#include "measure/sampling/host_clock_strategy.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "collectives/registry.hpp"
#include "measure/clock.hpp"
#include "measure/statistics.hpp"
#include "rendezvous/team/local_job.hpp"
#include "support_communicator.hpp"

using namespace busbw;

namespace {

constexpr std::uint64_t kMaxHostBytes = 64;
constexpr double kDelayS = 2e-3;
constexpr double kOperationS = 8e-3;

/// Sleeps, and returns the real duration, which is longer on a busy machine.
double sleep_for(double seconds) {
  const double start_s = monotonic_s();
  usleep(static_cast<useconds_t>(seconds * 1e6));
  return monotonic_s() - start_s;
}

/// A rank with operations of 8 ms.
class SleepingCommunicator final : public IdleCommunicator {
 public:
  using IdleCommunicator::IdleCommunicator;
  void all_reduce(const std::byte*, std::byte*, std::size_t, Dtype, Redop) override {
    ++operations;
    shortest_operation_s = std::min(shortest_operation_s, sleep_for(kOperationS));
  }
  void copy(std::byte*, const std::byte*, std::size_t) override {}

  int operations = 0;
  double shortest_operation_s = 1e9;
};

/// Copies its data, sleeps for 2 ms and starts `operations` operations.
class LateCollective final : public Collective {
 public:
  explicit LateCollective(int operations) : Collective(facts::all_reduce), operations_(operations) {}
  Segments expected_segments(const Shape&, const RankPosition&) const override { return {}; }
  void run(Communicator& communicator, const CollectiveCall& call) const override {
    communicator.copy(call.recv, call.send, call.count);
    slept_s_.push_back(sleep_for(kDelayS));
    for (int operation = 0; operation < operations_; ++operation)
      communicator.all_reduce(call.send, call.recv, call.count, call.dtype, call.redop);
  }
  /// Median of the real sleeps.
  double median_slept_s() const { return summarize(slept_s_).median_s; }

 private:
  int operations_;
  mutable std::vector<double> slept_s_;
};

/// Measured start delay, and what the rank really did.
struct Outcome {
  std::optional<StartDelay> delay;
  int operations;
  double median_slept_s;
  double shortest_operation_s;
};

Outcome measure(TotalTime total, int iterations, int blocking = 0, int operations = 1) {
  RunSettings settings;
  settings.iterations = iterations;
  settings.blocking = blocking;
  const LateCollective collective(operations);
  SleepingCommunicator communicator(0, 1, buffer_bytes(kMaxHostBytes, 0));
  LocalJob job(1);
  const auto world = job.team(0);
  const CaseBuffers buffers(communicator, collective.shape(4, 4, 1), Dtype::float32, kMaxHostBytes, 0);
  IterationRunner runner(*world, communicator,
                         {collective, buffers, Dtype::float32, Redop::sum, 0, Placement::out_of_place, 1}, settings);
  HostClockStrategy strategy(runner, total);
  Samples samples;
  strategy.sample(samples);
  CHECK_FALSE(samples.start_delay);
  CHECK(samples.operation_s.size() == static_cast<std::size_t>(iterations));
  strategy.complete(samples);
  CHECK(samples.operation_s.size() == static_cast<std::size_t>(iterations));
  return {samples.start_delay, communicator.operations, collective.median_slept_s(), communicator.shortest_operation_s};
}

}  // namespace

TEST_CASE("HostClockStrategy: the start delay excludes the operations, whatever -z waits for") {
  for (const TotalTime total : {TotalTime::from_samples, TotalTime::separate})
    for (const int blocking : {0, 1, 2, 3})
      for (const int operations : {1, 2}) {
        CAPTURE(blocking);
        CAPTURE(operations);
        const Outcome outcome = measure(total, 6, blocking, operations);
        const auto& delay = outcome.delay;
        REQUIRE(delay);
        CHECK(delay->median_s >= kDelayS);
        CHECK(delay->median_s < outcome.median_slept_s + outcome.shortest_operation_s);
        REQUIRE(delay->median_ci95_s);
        CHECK(delay->median_ci95_s->first >= kDelayS);
      }
}

TEST_CASE("HostClockStrategy: samples that give the total also give the delay, others are repeated") {
  CHECK(measure(TotalTime::from_samples, 3).operations == 3);
  CHECK(measure(TotalTime::separate, 3).operations == 6);
  CHECK(measure(TotalTime::separate, 110).operations == 110 + 100);
}

TEST_CASE("HostClockStrategy: no interval below six iterations") {
  CHECK_FALSE(measure(TotalTime::from_samples, 5).delay->median_ci95_s);
  CHECK(measure(TotalTime::from_samples, 6).delay->median_ci95_s);
}
