#include "measure/sampling/iteration_runner.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <numeric>
#include <thread>

#include "collectives/registry.hpp"
#include "measure/clock.hpp"
#include "measure/sampling/device_event_strategy.hpp"
#include "measure/sampling/host_clock_strategy.hpp"
#include "measure/sampling/strategy_selection.hpp"
#include "rendezvous/team/local_job.hpp"
#include "support_communicator.hpp"
#include "support_team.hpp"

using namespace busbw;

namespace {

/// A collective that only records the buffers of its calls.
class Remembering final : public Collective {
 public:
  explicit Remembering(int operations_per_run = 1)
      : Collective(facts::all_reduce), operations_per_run_(operations_per_run) {}
  Segments expected_segments(const Shape&, const RankPosition&) const override { return {}; }
  void run(Communicator&, const CollectiveCall& call) const override { calls_.push_back(call); }
  int operations_per_run() const override { return operations_per_run_; }
  const std::vector<CollectiveCall>& calls() const { return calls_; }

 private:
  int operations_per_run_;
  mutable std::vector<CollectiveCall> calls_;
};

/// A device on which each call of a collective takes a second.
class CallsAsSeconds final : public Timestamps {
 public:
  explicit CallsAsSeconds(const Remembering& collective) : collective_(collective) {}
  void reset(std::size_t count) override { at_.assign(count, 0); }
  void set(std::size_t index) override { at_.at(index) = collective_.calls().size(); }
  double seconds_between(std::size_t from, std::size_t to) const override {
    return static_cast<double>(at_.at(to)) - static_cast<double>(at_.at(from));
  }

 private:
  const Remembering& collective_;
  std::vector<std::size_t> at_;
};

constexpr std::uint64_t kMaxRunnerBytes = 64;

/// Iterations of one rank with all objects that they need.
struct RunnerScene {
  explicit RunnerScene(const RunSettings& given, int operations_per_run = 1, std::size_t elements = 4)
      : settings(given),
        collective(operations_per_run),
        communicator(0, 1, buffer_bytes(kMaxRunnerBytes, 0)),
        job(1),
        world(job.team(0)),
        buffers(communicator, collective.shape(elements, 4, 1), Dtype::float32, kMaxRunnerBytes, 0),
        runner(*world, communicator, sampled(Placement::out_of_place), settings) {}

  SampledCase sampled(Placement placement) const {
    return {collective, buffers, Dtype::float32, Redop::sum, 0, placement, communicator.size()};
  }

  std::uint64_t steps() const { return job.progress(0).steps; }
  /// Position of call `i` in the buffers, in regions.
  std::size_t region(std::size_t i) const {
    return static_cast<std::size_t>(collective.calls().at(i).send - collective.calls().at(0).send) / 16;
  }

  RunSettings settings;
  Remembering collective;
  IdleCommunicator communicator;
  LocalJob job;
  std::unique_ptr<Team> world;
  CaseBuffers buffers;
  IterationRunner runner;
};

RunSettings runner_settings(int iterations, int aggregated, int blocking, int warmup = 1) {
  RunSettings settings;
  settings.iterations = iterations;
  settings.aggregated_iterations = aggregated;
  settings.blocking = blocking;
  settings.warmup_iterations = warmup;
  return settings;
}

}  // namespace

TEST_CASE("sampling: warms up as often as requested, in the timed placement") {
  for (const int count : {1, 5}) {
    RunnerScene scene(runner_settings(3, 2, 0, count));
    IterationRunner runner(*scene.world, scene.communicator, scene.sampled(Placement::in_place), scene.settings);
    CHECK(runner.warm_up() > 0);
    CHECK(scene.collective.calls().size() == static_cast<std::size_t>(count));
    CHECK(scene.communicator.synchronized() == 1);
    for (const CollectiveCall& call : scene.collective.calls()) CHECK(call.send == call.recv);
    CHECK(scene.job.progress(0).phase == Phase::warmup);
  }
}

TEST_CASE("sampling: a batch is -n iterations of -m operations, each in the next region") {
  RunnerScene scene(runner_settings(3, 2, 0));
  Samples samples;
  HostClockStrategy(scene.runner, TotalTime::from_samples).sample(samples);
  REQUIRE(scene.collective.calls().size() == 6);
  for (std::size_t i = 0; i < 6; ++i) CHECK(scene.region(i) == i % 4);  // four regions of 16 bytes in 64
  CHECK(samples.operation_s.size() == 3);
  CHECK(scene.job.progress(0).phase == Phase::timing);
}

TEST_CASE("sampling: samples are per operation, the total is host-clock time") {
  for (const int blocking : {0, 1, 2, 3})
    for (const int operations_per_run : {1, 2}) {
      RunnerScene scene(runner_settings(4, 3, blocking), operations_per_run);
      CHECK(scene.runner.operations_per_iteration() == 3 * operations_per_run);
      Samples samples;
      HostClockStrategy(scene.runner, TotalTime::from_samples).sample(samples);
      for (const double sample : samples.operation_s) CHECK(sample >= 0);
      const double sum = std::accumulate(samples.operation_s.begin(), samples.operation_s.end(), 0.0);
      CHECK(samples.total.elapsed_s == doctest::Approx(sum * 3 * operations_per_run).epsilon(1e-9));
      CHECK(samples.total.elapsed_s > 0);
    }
}

TEST_CASE("sampling: samples use the device clock if there is one, the total uses the host clock") {
  for (const int blocking : {0, 1, 2, 3}) {
    CAPTURE(blocking);
    RunnerScene scene(runner_settings(4, 3, blocking));
    CallsAsSeconds clock(scene.collective);
    scene.communicator.stamp_with(clock);
    IterationRunner runner(*scene.world, scene.communicator, scene.sampled(Placement::out_of_place), scene.settings);
    Samples samples;
    const double began_s = monotonic_s();
    DeviceEventStrategy(runner, TotalTime::from_samples).sample(samples);
    const double wall_s = monotonic_s() - began_s;
    CHECK(samples.operation_s == std::vector<double>(4, 1.0));  // 3 calls of one second each are one iteration
    CHECK(samples.total.issue_s <= samples.total.elapsed_s);
    CHECK(samples.total.elapsed_s > 0);
    CHECK(samples.total.elapsed_s <= wall_s);
    CHECK(samples.total.operations == 12);
    CHECK(visible_overhead(runner, 3.0) == VisibleOverhead::none);
  }
}

TEST_CASE("sampling: on a device launches are visible in short iterations, events in longer ones too") {
  RunnerScene scene(runner_settings(2, 1, 0));
  CallsAsSeconds clock(scene.collective);
  scene.communicator.stamp_with(clock);
  const IterationRunner on_device(*scene.world, scene.communicator, scene.sampled(Placement::out_of_place),
                                  scene.settings);
  CHECK(visible_overhead(on_device, 100e-6) == VisibleOverhead::launches);
  CHECK(visible_overhead(on_device, 299e-6) == VisibleOverhead::launches);
  CHECK(visible_overhead(on_device, 301e-6) == VisibleOverhead::timestamps);
  CHECK(visible_overhead(on_device, 2.4e-3) == VisibleOverhead::timestamps);
  CHECK(visible_overhead(on_device, 2.6e-3) == VisibleOverhead::none);
  const RunnerScene on_host(runner_settings(2, 1, 0));
  CHECK(visible_overhead(on_host.runner, 100e-6) == VisibleOverhead::none);
}

TEST_CASE("sampling: a batch without timestamps has as many operations, each in the next region, and a time") {
  RunnerScene scene(runner_settings(600, 2, 0));
  Samples samples;
  samples.total += scene.runner.time_batch();
  CHECK(samples.total.issue_s > 0);
  CHECK(samples.total.elapsed_s >= samples.total.issue_s);
  CHECK(samples.total.operations == 1200);
  CHECK(samples.operation_s.empty());
  REQUIRE(scene.collective.calls().size() == 1200);
  for (std::size_t i = 0; i < 1200; ++i) CHECK(scene.region(i) == i % 4);
  CHECK(scene.job.progress(0).phase == Phase::timing);
  CHECK(scene.steps() == 1 + 3);  // the barrier, and one progress report every 256 iterations
}

TEST_CASE("sampling: timestamps are visible in short iterations, but not with untimed barriers") {
  struct Expected {
    double iteration_s;
    int blocking;
    VisibleOverhead shows;
  };
  for (const Expected& expected : {Expected{9.9e-6, 0, VisibleOverhead::timestamps},
                                   {10.1e-6, 0, VisibleOverhead::none},
                                   {1e-3, 0, VisibleOverhead::none},
                                   {9e-6, 1, VisibleOverhead::timestamps},
                                   {9e-6, 2, VisibleOverhead::timestamps},
                                   {9e-6, 3, VisibleOverhead::none}}) {
    CAPTURE(expected.iteration_s);
    CAPTURE(expected.blocking);
    RunnerScene scene(runner_settings(2, 3, expected.blocking), 2);
    CHECK(visible_overhead(scene.runner, expected.iteration_s) == expected.shows);
  }
}

TEST_CASE("sampling: batches accumulate") {
  RunnerScene scene(runner_settings(5, 1, 0));
  Samples samples;
  HostClockStrategy(scene.runner, TotalTime::from_samples).sample(samples);
  const double first_s = samples.total.elapsed_s;
  HostClockStrategy(scene.runner, TotalTime::from_samples).sample(samples);
  CHECK(samples.operation_s.size() == 10);
  CHECK(samples.total.elapsed_s > first_s);
}

TEST_CASE("sampling: -z selects the waits and the barriers") {
  struct Expected {
    int blocking;
    int synchronized;
    std::uint64_t steps;  // one at the start, one per iteration, one per barrier
  };
  // 4 iterations of 3 operations
  for (const Expected& expected :
       {Expected{0, 1, 1 + 4}, {1, 12 + 1, 1 + 4 + 12}, {2, 12 + 1, 1 + 4}, {3, 4 + 1, 1 + 4 + 4}}) {
    CAPTURE(expected.blocking);
    RunnerScene scene(runner_settings(4, 3, expected.blocking));
    Samples samples;
    HostClockStrategy(scene.runner, TotalTime::from_samples).sample(samples);
    CHECK(scene.communicator.synchronized() == expected.synchronized);
    CHECK(scene.steps() == expected.steps);
  }
}

TEST_CASE("sampling: -z 3 excludes the barriers between iterations from the host-clock total") {
  /// A barrier that another rank reaches late.
  struct SlowToMeet final : TeamLike {
    using TeamLike::TeamLike;
    void barrier() override { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }
  };
  RunnerScene scene(runner_settings(5, 1, 3));
  CallsAsSeconds clock(scene.collective);
  scene.communicator.stamp_with(clock);
  SlowToMeet world(*scene.world);
  IterationRunner runner(world, scene.communicator, scene.sampled(Placement::out_of_place), scene.settings);
  Samples samples;
  const double began_s = monotonic_s();
  DeviceEventStrategy(runner, TotalTime::from_samples).sample(samples);
  const double wall_s = monotonic_s() - began_s;
  CHECK(samples.total.elapsed_s > 0);
  CHECK(samples.total.elapsed_s <= wall_s - (1 + 5) * 0.02);  // one barrier before and five between iterations
}
