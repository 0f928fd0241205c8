// Sampling strategies on a device on which calls return before their operations are done: graphs, gate, the three
// times.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "collectives/registry.hpp"
#include "common/support/error.hpp"
#include "measure/sampling/device_event_strategy.hpp"
#include "measure/sampling/gated_event_strategy.hpp"
#include "measure/sampling/strategy_selection.hpp"
#include "rendezvous/team/local_job.hpp"
#include "support_device.hpp"
#include "support_team.hpp"

using namespace busbw;

namespace {

constexpr std::uint64_t kMaxDeviceBytes = 4096;

/// Iterations of one rank on a fake device.
struct DeviceScene {
  explicit DeviceScene(const MadeUpDevice& made_up, const RunSettings& given, const char* name = "all_reduce",
                       int size = 1, int ranks_of_largest_group = 0)
      : settings(given),
        collective(make_collective(name, {})),
        device(made_up, buffer_bytes(kMaxDeviceBytes, 0), size),
        job(1),
        world(job.team(0)),
        buffers(device, collective->shape(16, 4, size), Dtype::float32, kMaxDeviceBytes, 0),
        runner(*world, device,
               {*collective, buffers, Dtype::float32, Redop::sum, 0, Placement::out_of_place,
                std::max(size, ranks_of_largest_group)},
               settings) {}

  void time_batch() { samples.total += runner.time_batch(); }
  void sample_with_events(TotalTime total) { DeviceEventStrategy(runner, total).sample(samples); }
  void sample_gated() { GatedEventStrategy(runner).sample(samples); }
  void measure_device_time() { GatedEventStrategy(runner).complete(samples); }

  RunSettings settings;
  std::unique_ptr<Collective> collective;
  DeviceCommunicator device;
  LocalJob job;
  std::unique_ptr<Team> world;
  CaseBuffers buffers;
  IterationRunner runner;
  Samples samples;
};

RunSettings settings_of(int iterations, int aggregated = 1, int graph_launches = 0, int blocking = 0) {
  RunSettings settings;
  settings.iterations = iterations;
  settings.aggregated_iterations = aggregated;
  settings.graph_launches = graph_launches;
  settings.blocking = blocking;
  return settings;
}

using Words = std::vector<std::string>;

/// A team that records its barriers in the device's log.
class LoggedTeam final : public TeamLike {
 public:
  LoggedTeam(Team& team, Words& log) : TeamLike(team), log_(log) {}
  void barrier() override { log_.push_back("barrier"); }
  void enter(Phase phase) override {
    if (phase == Phase::timing) log_.push_back("timing");
  }

 private:
  Words& log_;
};

}  // namespace

TEST_CASE("sampling: -G captures the iterations once, launches them N times, and divides by all of them") {
  DeviceScene scene({}, settings_of(3, 2, 5));
  scene.time_batch();
  const int put_on_device = 1;
  const int just_before = 1;
  CHECK(scene.device.count("begin") == 1);
  CHECK(scene.device.count("end") == 1);
  CHECK(scene.device.count("run") == 3 * 2 + just_before);
  CHECK(scene.device.count("issue") == put_on_device + 5);
  CHECK(scene.device.count("wait") == put_on_device + just_before + 1);
  CHECK(scene.samples.total.operations == 3 * 2 * 5);
  scene.time_batch();
  CHECK(scene.device.count("begin") == 1);
  CHECK(scene.device.count("issue") == put_on_device + 5 + 5);
}

TEST_CASE("sampling: uploading a graph to the device is not timed") {
  DeviceScene scene({}, settings_of(2, 1, 1));
  scene.time_batch();
  CHECK(scene.device.log ==
        Words{"begin", "run", "run", "end", "issue", "wait", "run", "wait", "issue", "flush", "wait"});
}

TEST_CASE("sampling: an operation wakes the device just before the timed part") {
  DeviceScene scene({}, settings_of(2));
  scene.time_batch();
  CHECK(scene.device.log == Words{"run", "wait", "run", "run", "flush", "wait"});
  CHECK(scene.samples.total.operations == 2);
  scene.time_batch();
  CHECK(scene.device.count("run") == 2 * (1 + 2));
  CHECK(scene.samples.total.operations == 4);
}

TEST_CASE("sampling: an operation aligns the ranks before the timed part, because they leave a barrier one by one") {
  for (const bool with_timestamps : {false, true}) {
    DeviceScene scene({}, settings_of(1));
    LoggedTeam meeting(*scene.world, scene.device.log);
    IterationRunner runner(
        meeting, scene.device,
        {*scene.collective, scene.buffers, Dtype::float32, Redop::sum, 0, Placement::out_of_place, 1}, scene.settings);
    if (with_timestamps)
      DeviceEventStrategy(runner, TotalTime::from_samples).sample(scene.samples);
    else
      runner.time_batch();
    const Words lined_up(scene.device.log.begin(), std::ranges::find(scene.device.log, "timing"));
    CHECK(lined_up == Words{"barrier", "run", "wait"});
  }
}

TEST_CASE("sampling: groups of different sizes use equally many gated batches, because all ranks wait in each") {
  for (const std::size_t room : {6, 8, 12, 40})
    for (const int small : {1, 2, 4}) {
      CAPTURE(room);
      CAPTURE(small);
      const RunSettings settings = settings_of(20);
      DeviceScene of_largest({.room = room}, settings, "hypercube", 8);
      DeviceScene of_small({.room = room}, settings, "hypercube", small, 8);
      for (DeviceScene* scene : {&of_largest, &of_small}) {
        scene->sample_gated();
        scene->measure_device_time();
      }
      CHECK(of_small.device.count("close") == of_largest.device.count("close"));
      CHECK(of_small.samples.operation_s.size() == of_largest.samples.operation_s.size());
    }
}

TEST_CASE("sampling: -G with timestamps gives one sample per iteration and launch") {
  DeviceScene scene({.operation_s = 0.5}, settings_of(3, 2, 4));
  scene.sample_gated();
  CHECK(scene.device.count("begin") == 1);
  const int put_on_device = 1;
  CHECK(scene.device.count("issue") == put_on_device + 4);
  CHECK(scene.device.count("wait") == put_on_device + 4);  // timestamps are read after each launch
  CHECK(scene.device.count("stamp 0") == 1);
  CHECK(scene.device.count("stamp 3") == 1);
  CHECK(scene.samples.operation_s == std::vector<double>(12, 0.5));
  CHECK(scene.samples.clock == SampleClock::gated_device_events);
  CHECK(scene.samples.total.operations == 0);
  CHECK(scene.samples.device_operations == 0);
}

TEST_CASE("sampling: timestamps of a long graph also give the total and the device time") {
  DeviceScene scene({.operation_s = 0.5}, settings_of(3, 1, 2));
  scene.sample_with_events(TotalTime::from_samples);
  CHECK(scene.device.count("issue") == 1 + 2);
  CHECK(scene.device.count("close") == 0);
  CHECK(scene.samples.total.operations == 6);
  CHECK(scene.samples.total.elapsed_s > 0);
  CHECK(scene.samples.device_operations == 4);  // all but the first of each launch
  CHECK(scene.samples.device_s == 2.0);
}

TEST_CASE("sampling: graphs stop at 100,000 samples") {
  DeviceScene scene({}, settings_of(50'000, 1, 7));
  scene.sample_gated();
  CHECK(scene.device.count("issue") == 1 + 2);
  CHECK(scene.samples.operation_s.size() + scene.samples.skipped_iterations == 100'000);
}

TEST_CASE("sampling: a gated graph with timestamps starts on all ranks together, so no sample includes a wait") {
  DeviceScene scene({.operation_s = 2, .late_s = 50}, settings_of(3, 1, 2));
  scene.sample_gated();
  CHECK(scene.samples.operation_s == std::vector<double>(6, 2.0));
  CHECK(scene.samples.skipped_iterations == 0);
  CHECK_FALSE(scene.samples.first_iteration_s);
  CHECK(scene.device.log == Words{"begin",   "stamp 0", "run",   "stamp 1", "run",  "stamp 2", "run",
                                  "stamp 3", "end",  //
                                  "issue",   "wait",  //
                                  "close",   "run",     "issue", "flush",   "open", "wait",  //
                                  "close",   "run",     "issue", "flush",   "open", "ask",     "wait"});
}

TEST_CASE("sampling: a graph with timestamps that cannot be gated has no sample of its first iteration") {
  for (const auto& [device, settings] :
       {std::pair{MadeUpDevice{.operation_s = 2, .has_gate = false}, settings_of(3, 1, 2)},
        {MadeUpDevice{.operation_s = 2, .room = 1}, settings_of(3, 1, 2)},
        {MadeUpDevice{.operation_s = 2}, settings_of(500, 1, 2)},
        {MadeUpDevice{.operation_s = 2, .room = 8}, settings_of(100, 1, 2)}}) {
    DeviceScene scene(device, settings);
    scene.sample_gated();
    CHECK(scene.device.count("close") == 0);
    CHECK(scene.samples.skipped_iterations == 2);
    CHECK(scene.samples.operation_s.size() == 2 * static_cast<std::size_t>(settings.iterations - 1));
    CHECK(scene.samples.first_iteration_s == 2.0);
  }
  // 499 operations and 500 timestamps fit into a capacity of 40.
  DeviceScene scene({}, settings_of(499, 1, 2));
  scene.sample_gated();
  CHECK(scene.device.count("close") == 2);
  CHECK(scene.samples.skipped_iterations == 0);
}

TEST_CASE("sampling: a graph of one iteration keeps its only sample") {
  DeviceScene scene({.operation_s = 2, .has_gate = false}, settings_of(1, 1, 3));
  scene.sample_gated();
  CHECK(scene.samples.operation_s == std::vector<double>(3, 2.0));
  CHECK(scene.samples.skipped_iterations == 0);
}

TEST_CASE("sampling: the first batch also keeps its first iteration separately") {
  DeviceScene scene({.operation_s = 2, .launch_s = 3, .late_s = 50, .has_gate = false}, settings_of(3, 2));
  scene.sample_gated();
  CHECK(scene.samples.first_iteration_s == 60.0);
  CHECK(scene.samples.operation_s.front() == 30.0);
  CHECK(scene.samples.operation_s.size() == 3);
}

TEST_CASE("sampling: short iterations are gated: their samples include neither launches nor waits for other ranks") {
  DeviceScene scene({.operation_s = 2, .launch_s = 3, .late_s = 50, .room = 6}, settings_of(3));
  scene.sample_gated();
  CHECK(scene.samples.operation_s == std::vector<double>(3, 2.0));
  CHECK(scene.samples.first_iteration_s == 55.0);  // measured alone, before the batch
  CHECK(scene.samples.skipped_iterations == 0);
  CHECK(scene.samples.total.operations == 0);
  CHECK(scene.device.log == Words{"stamp 0", "run",   "stamp 1", "wait",  //
                                  "close",   "run",   "stamp 0", "run",   "stamp 1", "run",     "stamp 2",
                                  "flush",   "open",  "wait",    "close", "run",     "stamp 0", "run",
                                  "stamp 1", "flush", "open",    "ask",   "wait"});
}

TEST_CASE("sampling: gated iterations with timestamps do not exceed the gate's capacity") {
  for (const char* name : {"all_reduce", "hypercube"})
    for (const std::size_t room : {4, 20, 37, 100})
      for (const int aggregated : {1, 3}) {
        CAPTURE(name);
        CAPTURE(room);
        CAPTURE(aggregated);
        DeviceScene scene({.room = room}, settings_of(50, aggregated), name, 8);
        scene.sample_gated();
        CHECK(scene.device.max_behind_gate <= room);
        CHECK(scene.samples.operation_s.size() == 50);
      }
}

TEST_CASE("sampling: timestamps between longer iterations give samples and device time, but no total") {
  DeviceScene scene({.operation_s = 2, .launch_s = 3, .late_s = 50}, settings_of(3, 2));
  scene.sample_with_events(TotalTime::separate);
  CHECK(scene.samples.clock == SampleClock::device_events);
  CHECK(scene.samples.operation_s == std::vector<double>{30.0, 5.0, 5.0});
  CHECK(scene.samples.first_iteration_s == 60.0);
  CHECK(scene.samples.device_s == 20.0);  // without the first iteration, which waited
  CHECK(scene.samples.device_operations == 4);
  CHECK(scene.samples.total.operations == 0);
  CHECK(scene.samples.total.elapsed_s == 0.0);
  CHECK(scene.device.log == Words{"run",     "wait",  //
                                  "stamp 0", "group",   "run",     "run",     "grouped", "stamp 1", "group",
                                  "run",     "run",     "grouped", "stamp 2", "group",   "run",     "run",
                                  "grouped", "stamp 3", "flush",   "ask",     "wait"});
}

TEST_CASE("sampling: graphs with timestamps and without a gate give samples and device time of all launches") {
  DeviceScene scene({.operation_s = 2}, settings_of(3, 1, 4));
  scene.sample_with_events(TotalTime::separate);
  CHECK(scene.device.count("close") == 0);
  CHECK(scene.device.count("ask") == 1);
  CHECK(scene.samples.operation_s == std::vector<double>(4 * 2, 2.0));
  CHECK(scene.samples.skipped_iterations == 4);
  CHECK(scene.samples.device_operations == 4 * 2);
  CHECK(scene.samples.device_s == 16.0);
  CHECK(scene.samples.total.operations == 0);
}

TEST_CASE("sampling: iterations too short to hide launches have no device time without a gate") {
  DeviceScene scene({.operation_s = 2, .launch_s = 3, .has_gate = false}, settings_of(3));
  scene.sample_gated();
  CHECK(scene.samples.operation_s == std::vector<double>(3, 5.0));
  CHECK(scene.samples.clock == SampleClock::device_events);
  CHECK(scene.samples.device_operations == 0);
  CHECK(scene.samples.total.operations == 0);
}

TEST_CASE("sampling: launches of short graphs are visible, even with long iterations") {
  const DeviceScene scene({}, settings_of(10, 1, 3));
  CHECK(visible_overhead(scene.runner, 200e-6) == VisibleOverhead::launches);
  CHECK(visible_overhead(scene.runner, 400e-6) == VisibleOverhead::launches);  // 10 of them are 4 ms
  CHECK(visible_overhead(scene.runner, 600e-6) == VisibleOverhead::timestamps);
  CHECK(visible_overhead(scene.runner, 2.6e-3) == VisibleOverhead::none);
  CHECK(visible_overhead(DeviceScene({}, settings_of(1, 1, 3)).runner, 2.6e-3) == VisibleOverhead::launches);
  CHECK(visible_overhead(DeviceScene({}, settings_of(10)).runner, 400e-6) == VisibleOverhead::timestamps);
}

TEST_CASE("sampling: gated times include neither launches nor waits for other ranks") {
  DeviceScene scene({.operation_s = 2, .launch_s = 3, .late_s = 50}, settings_of(10));
  scene.measure_device_time();
  CHECK(scene.samples.device_operations == 10);
  CHECK(scene.samples.device_s == 20.0);
  // one operation makes all ranks begin together
  CHECK(scene.device.log == Words{"close", "run", "stamp 0", "run", "run", "run", "run", "run", "run", "run", "run",
                                  "run", "run", "stamp 1", "flush", "open", "wait"});
  DeviceScene without({.operation_s = 2, .launch_s = 3, .late_s = 50, .has_gate = false}, settings_of(10));
  without.sample_gated();
  CHECK(without.samples.operation_s.front() == 55.0);
  CHECK(without.samples.operation_s.back() == 5.0);
}

TEST_CASE("sampling: gated operations do not exceed the gate's capacity, for any number of calls per operation") {
  for (const char* name : {"all_reduce", "hypercube"})
    for (const std::size_t room : {4, 20, 37, 100})
      for (const int aggregated : {1, 3}) {
        CAPTURE(name);
        CAPTURE(room);
        CAPTURE(aggregated);
        DeviceScene scene({.room = room}, settings_of(50, aggregated), name, 8);
        scene.measure_device_time();
        CHECK(scene.device.max_behind_gate <= room);
        CHECK(scene.samples.device_operations <= 50 * static_cast<std::size_t>(aggregated));
        CHECK(scene.device.count("close") <= 8);
        if (room >= 20) CHECK(scene.samples.device_operations > 0);
      }
}

TEST_CASE("sampling: the gate closes repeatedly until all iterations are done") {
  DeviceScene scene({.operation_s = 2, .launch_s = 3, .room = 7}, settings_of(10));
  scene.measure_device_time();
  CHECK(scene.device.count("close") == 3);  // 4, 4 and 2
  CHECK(scene.samples.device_operations == 10);
  CHECK(scene.samples.device_s == 20.0);
}

TEST_CASE("sampling: a graph is one launch behind the gate") {
  DeviceScene scene({.operation_s = 2, .room = 10}, settings_of(50, 1, 3));
  scene.measure_device_time();
  CHECK(scene.samples.device_operations == 50);
  CHECK(scene.samples.device_s == 100.0);
  CHECK(scene.device.max_behind_gate == 4);
}

TEST_CASE("sampling: a graph that exceeds the gate's capacity is not gated") {
  for (const auto& [room, most] : {std::pair<std::size_t, int>{40, 1000}, {8, 200}}) {
    DeviceScene longest({.room = room}, settings_of(most, 1, 3));
    longest.measure_device_time();
    CHECK(longest.samples.device_operations == static_cast<std::uint64_t>(most));
    DeviceScene too_long({.room = room}, settings_of(most + 1, 1, 3));
    too_long.measure_device_time();
    CHECK(too_long.samples.device_operations == 0);
    CHECK(too_long.device.log.empty());
  }
}

TEST_CASE("sampling: nothing is gated without a gate, without capacity, or with waits between operations") {
  for (const auto& [device, settings] : {std::pair{MadeUpDevice{.has_gate = false}, settings_of(5)},
                                         {MadeUpDevice{.room = 3}, settings_of(5)},
                                         {MadeUpDevice{}, settings_of(5, 1, 0, 1)},
                                         {MadeUpDevice{}, settings_of(5, 1, 0, 2)},
                                         {MadeUpDevice{}, settings_of(5, 1, 0, 3)}}) {
    DeviceScene scene(device, settings);
    scene.measure_device_time();
    CHECK(scene.samples.device_operations == 0);
    CHECK(scene.device.log.empty());
  }
}

TEST_CASE("sampling: the gate opens if a rank fails behind it") {
  DeviceScene scene({}, settings_of(5));
  scene.device.when_flushed = [&] { scene.job.abort(ExitCode::rank_lost, "lost"); };
  CHECK_THROWS_AS(scene.measure_device_time(), JobAborted);
  CHECK(scene.device.count("close") == 1);
  CHECK(scene.device.count("open") == 1);
}

TEST_CASE("sampling: -m operations are issued as one, unless the host waits after each") {
  for (const auto& [aggregated, blocking, groups] : {std::tuple{1, 0, 0}, {3, 0, 4}, {3, 1, 0}, {3, 2, 0}, {3, 3, 4}}) {
    CAPTURE(aggregated);
    CAPTURE(blocking);
    DeviceScene scene({}, settings_of(4, aggregated, 0, blocking));
    scene.sample_with_events(TotalTime::from_samples);
    CHECK(scene.device.count("group") == groups);
    CHECK(scene.device.count("grouped") == groups);
    CHECK(scene.device.count("run") == 1 + 4 * aggregated);
  }
}

TEST_CASE("sampling: -z 3 waits after aggregated operations, not between them") {
  DeviceScene scene({}, settings_of(1, 2, 0, 3));
  scene.sample_with_events(TotalTime::from_samples);
  CHECK(scene.device.log == Words{"run", "wait",    //
                                  "stamp 0", "flush", "group", "run", "run", "grouped", "wait", "stamp 1", "stamp 2",
                                  "flush", "wait", "ask"});
}

TEST_CASE("sampling: no device time with -z, because the timestamps include host waits") {
  for (const int blocking : {1, 2, 3}) {
    DeviceScene scene({}, settings_of(4, 1, 0, blocking));
    scene.sample_with_events(TotalTime::from_samples);
    CHECK(scene.samples.device_operations == 0);
  }
}

TEST_CASE("sampling: the device's clocks are queried while it works, but never in the timed part") {
  const DeviceClockState condition{.clock_hz = 1.9e9, .max_clock_hz = 1.98e9, .throttle_reasons = {"power limit"}};
  DeviceScene scene({.condition = condition}, settings_of(2));
  // Without a warm-up, the batch is not known to hide the query.
  const auto log_of = [&](bool is_total) {
    scene.device.log.clear();
    scene.samples.clock_after.reset();
    if (is_total)
      scene.sample_with_events(TotalTime::from_samples);
    else
      scene.sample_gated();
    REQUIRE(scene.samples.clock_after);
    CHECK(scene.samples.clock_after->throttle_reasons == condition.throttle_reasons);
    return Words(std::ranges::find(scene.device.log, "flush"), scene.device.log.end());
  };
  CHECK(log_of(true) == Words{"flush", "wait", "ask"});
  CHECK(log_of(false) == Words{"flush", "open", "ask", "wait"});
}

TEST_CASE("sampling: in a batch of few iterations the clocks are queried afterwards, even after a long warm-up") {
  for (const auto& [iterations, at_work] : {std::pair{3, false}, {4, true}}) {
    DeviceScene scene({.condition = DeviceClockState{}, .host_wait_s = 25e-3}, settings_of(iterations));
    scene.runner.warm_up();
    scene.device.log.clear();
    scene.sample_with_events(TotalTime::from_samples);
    const Words end(std::ranges::find(scene.device.log, "flush"), scene.device.log.end());
    CHECK(end == (at_work ? Words{"flush", "ask", "wait"} : Words{"flush", "wait", "ask"}));
  }
}
