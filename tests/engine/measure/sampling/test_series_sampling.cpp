#include "measure/sampling/series_sampling.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "collectives/registry.hpp"
#include "rendezvous/team/local_job.hpp"
#include "support_device.hpp"

using namespace busbw;

namespace {

constexpr std::uint64_t kMaxSampledBytes = 4096;

/// One rank that samples one placement on a fake device.
struct SamplingScene {
  SamplingScene(const MadeUpDevice& made_up, const RunSettings& settings)
      : collective(make_collective("all_reduce", {})),
        device(made_up, buffer_bytes(kMaxSampledBytes, 0)),
        job(1),
        world(job.team(0)),
        buffers(device, collective->shape(16, 4, 1), Dtype::float32, kMaxSampledBytes, 0),
        reports(1) {
    stopped_by =
        sample_case(*world, device, {*collective, buffers, Dtype::float32, Redop::sum, 0, Placement::in_place, 1},
                    settings, reports);
  }
  const Samples& samples() const { return reports[0].samples; }

  std::unique_ptr<Collective> collective;
  DeviceCommunicator device;
  LocalJob job;
  std::unique_ptr<Team> world;
  CaseBuffers buffers;
  std::vector<RankReport> reports;
  StopReason stopped_by;
};

RunSettings series_settings(int iterations, int graph_launches = 0) {
  RunSettings settings;
  settings.iterations = iterations;
  settings.graph_launches = graph_launches;
  return settings;
}

constexpr double kShortS = 10e-6;
constexpr double kMiddleS = 1e-3;
constexpr double kLongS = 10e-3;
constexpr double kHourS = 3600;  // longer than any delay on a busy machine

}  // namespace

TEST_CASE("sample_case: short operations are timed without timestamps, sampled with them, then gated") {
  const SamplingScene scene({.operation_s = kShortS, .launch_s = 5e-6}, series_settings(8));
  CHECK(scene.stopped_by == StopReason::iterations);
  CHECK(scene.samples().total.operations == 8);
  CHECK(scene.samples().operation_s.size() == 8);
  CHECK(scene.samples().operation_s[3] == doctest::Approx(15e-6));
  CHECK(scene.samples().device_operations == 8);
  CHECK(scene.samples().device_s / 8 == doctest::Approx(kShortS));
}

// Counts the operations immediately before those that are timed without timestamps.
constexpr int kLineUp = 1;

TEST_CASE("sample_case: if the warm-up shows short operations, the time is measured first") {
  // On a busy machine a warm-up may seem long.
  bool is_first = false;
  for (int attempt = 0; attempt < 50 && !is_first; ++attempt) {
    const SamplingScene scene({.operation_s = kShortS}, series_settings(3));
    const auto first_stamp = std::ranges::find(scene.device.log, "stamp 0");
    is_first = std::count(scene.device.log.begin(), first_stamp, "run") == 1 + kLineUp + 3;
    if (is_first) CHECK(scene.device.count("run") == 1 + (kLineUp + 3) + (1 + 1 + 3) + 1 + 3);
  }
  CHECK(is_first);
}

TEST_CASE("sample_case: operations are measured once if timestamps are not visible") {
  MadeUpDevice device{.operation_s = kLongS, .late_s = 0.5};
  device.host_wait_s = kLongS;  // duration of the warm-up by the host clock
  const SamplingScene scene(device, series_settings(8));
  CHECK(scene.device.count("run") == 1 + kLineUp + 8);
  CHECK(scene.device.count("close") == 0);
  CHECK(scene.samples().total.operations == 8);
  CHECK(scene.samples().device_operations == 7);  // the first one waited for others
  CHECK(scene.samples().device_s / 7 == doctest::Approx(kLongS));
}

TEST_CASE("sample_case: if events are visible, the time is measured without them and nothing is gated") {
  // On a busy machine a warm-up may seem longer, and the first batch then has timestamps.
  bool is_first = false;
  for (int attempt = 0; attempt < 50 && !is_first; ++attempt) {
    MadeUpDevice device{.operation_s = kMiddleS, .late_s = kHourS};
    device.host_wait_s = kMiddleS;
    const SamplingScene scene(device, series_settings(8));
    CHECK(scene.device.count("close") == 0);
    CHECK(scene.samples().total.operations == 8);
    CHECK(scene.samples().total.elapsed_s < kHourS);  // by the host clock, on which this device takes no time
    CHECK(scene.samples().operation_s.size() == 8);
    CHECK(scene.samples().first_iteration_s == doctest::Approx(kMiddleS + kHourS));
    CHECK(scene.samples().device_operations == 7);
    CHECK(scene.samples().device_s / 7 == doctest::Approx(kMiddleS));
    const auto first_stamp = std::ranges::find(scene.device.log, "stamp 0");
    is_first = std::count(scene.device.log.begin(), first_stamp, "run") == 1 + kLineUp + 8 + kLineUp;
    if (is_first) CHECK(scene.device.count("run") == 1 + 2 * (kLineUp + 8));
  }
  CHECK(is_first);
}

TEST_CASE("sample_case: starts again after a warm-up that was slow for other reasons") {
  struct Expected {
    double operation_s;
    int runs_again;
  };
  for (const auto& [operation_s, runs_again] :
       {Expected{kShortS, (kLineUp + 8) + (1 + 1 + 8) + 1 + 8}, {kMiddleS, 2 * (kLineUp + 8)}}) {
    CAPTURE(operation_s);
    MadeUpDevice device{.operation_s = operation_s};
    device.host_wait_s = kLongS;
    const SamplingScene scene(device, series_settings(8));
    CHECK(scene.device.count("run") == 1 + kLineUp + 8 + runs_again);
    CHECK(scene.samples().total.operations == 8);
    CHECK(scene.samples().operation_s.size() == 8);
    CHECK(scene.samples().device_operations == (operation_s == kShortS ? 8 : 7));
  }
}

TEST_CASE("sample_case: graphs of long iterations are timed without timestamps") {
  for (const auto& [operation_s, recordings] : {std::pair{kMiddleS, 2}, {kLongS, 1}}) {
    CAPTURE(operation_s);
    MadeUpDevice device{.operation_s = operation_s};
    device.host_wait_s = kLongS;
    const SamplingScene scene(device, series_settings(8, 3));
    CHECK(scene.device.count("begin") == recordings);
    CHECK(scene.device.count("close") == 0);
    CHECK(scene.samples().total.operations == 24);
    CHECK(scene.samples().skipped_iterations == 3);
    CHECK(scene.samples().operation_s.size() == 21);
    CHECK(scene.samples().device_operations == 21);
    CHECK(scene.samples().device_s / 21 == doctest::Approx(operation_s));
  }
}

TEST_CASE("sample_case: -G") {
  const SamplingScene scene({.operation_s = kShortS, .launch_s = 5e-6}, series_settings(4, 3));
  CHECK(scene.device.count("begin") == 2);  // with timestamps and without
  CHECK(scene.device.count("close") == 3 + 1);  // each timestamped launch, and the device time
  CHECK(scene.samples().total.operations == 12);
  CHECK_FALSE(scene.samples().first_iteration_s);
  REQUIRE(scene.samples().operation_s.size() == 12);
  for (const double sample_s : scene.samples().operation_s) CHECK(sample_s == doctest::Approx(kShortS));
  CHECK(scene.samples().device_operations == 4);
}

TEST_CASE("sample_case: the device's clocks are queried after the warm-up, and once more") {
  const SamplingScene scene({.operation_s = kShortS, .condition = DeviceClockState{1e9, {}, {}}}, series_settings(4));
  CHECK(scene.device.count("ask") == 2);
  const auto asked = std::ranges::find(scene.device.log, "ask");
  CHECK(std::find(scene.device.log.begin(), asked, "wait") != asked);
  CHECK(std::find(scene.device.log.begin(), asked, "stamp 0") == asked);
  CHECK(scene.samples().clock_before);
  CHECK(scene.samples().clock_after);
}

TEST_CASE("sample_case: a stopping rule samples and times in whole batches") {
  RunSettings settings = series_settings(10);
  settings.target_ci = 0.5;
  const SamplingScene scene({.operation_s = kShortS}, settings);
  CHECK(scene.stopped_by == StopReason::target_ci);
  CHECK(scene.samples().operation_s.size() % 10 == 0);
  CHECK(scene.samples().total.operations == scene.samples().operation_s.size());
}
