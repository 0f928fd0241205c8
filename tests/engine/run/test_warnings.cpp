#include "run/warnings.hpp"

#include "support_errors.hpp"

using namespace busbw;

namespace {

const std::vector<int> kRanks{4, 5, 6, 7};

/// An ordinary measurement of four ranks on devices.
Measurement ordinary() {
  Measurement measurement;
  measurement.time_s = 20e-6;
  measurement.device_time_s = 9e-6;
  measurement.rank_launch_times_s = {12e-6, 12e-6, 13e-6, 12e-6};
  measurement.rank_arrivals_s = {0, 3e-6, 1e-6, 2e-6};
  measurement.rank_clocks.assign(4,
                                 {.before_hz = 1.98e9, .after_hz = 1.95e9, .max_hz = 1.98e9, .throttle_reasons = {}});
  return measurement;
}

std::vector<std::string> warnings(const Measurement& measurement, const RunSettings& settings = {}) {
  return measurement_warnings(settings, {measurement, 20}, nullptr, kRanks);
}

bool warns(const Measurement& measurement, const Measurement& other) {
  const TimedMeasurement in_the_other{other, 20};
  return !measurement_warnings({}, {measurement, 20}, &in_the_other, kRanks).empty();
}

void check_one(const Measurement& measurement, std::initializer_list<std::string_view> words) {
  const auto found = warnings(measurement);
  REQUIRE(found.size() == 1);
  check_names(found[0], words);
}

}  // namespace

TEST_CASE("warnings: none for an ordinary measurement, or without further figures") {
  CHECK(warnings(ordinary()).empty());
  CHECK(warnings({}).empty());
}

TEST_CASE("warnings: a missed target has a remedy, a met one gives no warning") {
  RunSettings settings;
  settings.target_ci = 0.01;
  Measurement measurement = ordinary();
  measurement.iteration_s = {1, 2};
  measurement.stopped_by = StopReason::sample_limit;
  const auto missed = warnings(measurement, settings);
  REQUIRE(missed.size() == 1);
  check_names(missed[0], {"--target-ci 1 %", "2 samples", "--max-time"});
  measurement.stopped_by = StopReason::target_ci;
  CHECK(warnings(measurement, settings).empty());
  measurement.stopped_by = StopReason::max_time;
  CHECK(warnings(measurement).empty());
}

TEST_CASE("warnings: names a rank that is slow to launch, if launches dominate the time") {
  Measurement measurement = ordinary();
  measurement.rank_launch_times_s[2] = 31e-6;
  check_one(measurement, {"rank 6 takes 31.0 us to launch", "others take 12.0 us", "CPU binding"});
  measurement.rank_launch_times_s[2] = 24e-6;  // twice as much
  CHECK(warnings(measurement).empty());
  measurement.rank_launch_times_s = {5e-6, 5e-6, 14.9e-6, 5e-6};  // the difference is 9.9 us
  CHECK(warnings(measurement).empty());
  measurement.rank_launch_times_s = {12e-6, 12e-6, 31e-6, 12e-6};
  measurement.device_time_s = 400e-6;
  CHECK(warnings(measurement).empty());
  measurement.device_time_s.reset();
  CHECK(warnings(measurement).empty());
}

TEST_CASE("warnings: with two ranks, names the one that is slower to launch") {
  Measurement measurement = ordinary();
  measurement.rank_launch_times_s = {31e-6, 12e-6};
  measurement.rank_arrivals_s.clear();
  measurement.rank_clocks.clear();
  check_one(measurement, {"rank 4 takes 31.0 us"});
}

TEST_CASE("warnings: names a late rank if waiting for it is a large part of the time") {
  Measurement measurement = ordinary();
  measurement.rank_arrivals_s = {0, 3e-6, 203e-6, 2e-6};  // of 400 us in total
  check_one(measurement, {"rank 6 began 200 us after all others", "50 %", "-n", "host"});
  measurement.rank_arrivals_s[0] = 150e-6;  // another rank is nearly as late
  CHECK(warnings(measurement).empty());
  measurement.rank_arrivals_s[0] = 0;
  measurement.time_s = 200e-6;
  CHECK(warnings(measurement).empty());
  measurement.time_s = 20e-6;
  measurement.rank_arrivals_s[2] = 90e-6;
  CHECK(warnings(measurement).empty());
}

TEST_CASE("warnings: none for ranks if there are few operations") {
  Measurement measurement = ordinary();
  measurement.rank_launch_times_s[2] = 31e-6;
  measurement.rank_arrivals_s[1] = 300e-6;
  CHECK(warnings(measurement).size() == 2);
  CHECK(measurement_warnings({}, {measurement, 19}, nullptr, kRanks).empty());
}

TEST_CASE("warnings: none for a rank that stands out in one placement only") {
  Measurement slow = ordinary();
  slow.rank_launch_times_s[2] = 31e-6;
  Measurement another_slow = ordinary();
  another_slow.rank_launch_times_s[0] = 31e-6;
  Measurement late = ordinary();
  late.rank_arrivals_s[2] = 203e-6;
  Measurement another_late = ordinary();
  another_late.rank_arrivals_s[0] = 203e-6;
  for (const auto& [one, another] : {std::pair{slow, another_slow}, {late, another_late}}) {
    CHECK(warns(one, one));
    CHECK_FALSE(warns(one, another));
    CHECK_FALSE(warns(one, ordinary()));
    CHECK_FALSE(warns(ordinary(), one));
  }
  CHECK_FALSE(warns(slow, late));
}

TEST_CASE("warnings: a slow clock may change by a step or two") {
  Measurement measurement = ordinary();
  measurement.rank_clocks[1] = {.before_hz = 345e6, .after_hz = 405e6, .max_hz = 1.98e9, .throttle_reasons = {}};
  CHECK(warnings(measurement).empty());
  measurement.rank_clocks[1].after_hz = 420e6;
  check_one(measurement, {"clock of rank 5 moved between 345 and 420 MHz"});
}

TEST_CASE("warnings: a moving clock is reported with its ranks, in both directions") {
  for (const auto& [before_hz, after_hz] : {std::pair{1.98e9, 1.4e9}, {1.4e9, 1.98e9}}) {
    Measurement measurement = ordinary();
    measurement.rank_clocks[1].before_hz = measurement.rank_clocks[3].before_hz = before_hz;
    measurement.rank_clocks[1].after_hz = measurement.rank_clocks[3].after_hz = after_hz;
    check_one(measurement, {"clock of ranks 5 7 moved between 1400 and 1980 MHz", "-w", "-lgc"});
    measurement.rank_clocks[1].before_hz = measurement.rank_clocks[3].after_hz = std::nullopt;
    CHECK(warnings(measurement).empty());
  }
}

TEST_CASE("warnings: name the throttle reasons of a device") {
  Measurement measurement = ordinary();
  measurement.rank_clocks[0].throttle_reasons = {"power limit"};
  measurement.rank_clocks[3].throttle_reasons = {"heat", "power limit"};
  check_one(measurement, {"ranks 4 7", "heat, power limit", "nvidia-smi"});
  measurement.rank_clocks[3].throttle_reasons.clear();
  check_one(measurement, {"rank 4 is slowed by power limit"});
}
