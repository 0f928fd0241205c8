#include "run/warnings.hpp"

#include "support_errors.hpp"

using namespace busbw;

namespace {

std::vector<RankInfo> ranks_of_warnings() {
  std::vector<RankInfo> ranks(4);
  for (int index = 0; index < 4; ++index) ranks[static_cast<std::size_t>(index)].rank = 4 + index;
  return ranks;
}

/// An ordinary measurement of four ranks on devices.
Measurement healthy_measurement() {
  Measurement measurement;
  measurement.time_s = 20e-6;
  measurement.rank_clocks.assign(4,
                                 {.before_hz = 1.98e9, .after_hz = 1.95e9, .max_hz = 1.98e9, .throttle_reasons = {}});
  return measurement;
}

std::vector<std::string> warnings(const Measurement& measurement, const RunSettings& settings = {}) {
  return measurement_warnings(settings, measurement, ranks_of_warnings());
}

void check_one(const Measurement& measurement, std::initializer_list<std::string_view> words) {
  const auto found = warnings(measurement);
  REQUIRE(found.size() == 1);
  check_names(found[0], words);
}

}  // namespace

TEST_CASE("warnings: none for an ordinary measurement, or without further figures") {
  CHECK(warnings(healthy_measurement()).empty());
  CHECK(warnings({}).empty());
}

TEST_CASE("warnings: a missed target has a remedy, a met one gives no warning") {
  RunSettings settings;
  settings.target_ci = 0.01;
  Measurement measurement = healthy_measurement();
  measurement.operation_s = {1, 2};
  measurement.stopped_by = StopReason::sample_limit;
  const auto missed = warnings(measurement, settings);
  REQUIRE(missed.size() == 1);
  check_names(missed[0], {"--target-ci 1 %", "2 samples", "--max-time"});
  measurement.stopped_by = StopReason::target_ci;
  CHECK(warnings(measurement, settings).empty());
  measurement.stopped_by = StopReason::max_time;
  CHECK(warnings(measurement).empty());
}

TEST_CASE("warnings: one for each late rank") {
  Measurement measurement = healthy_measurement();
  measurement.late_ranks.push_back(
      {.kind = LateRank::Kind::late_start, .host = "a", .message = "rank 6 on a is late; look there"});
  check_one(measurement, {"rank 6 on a is late; look there"});
}

TEST_CASE("warnings: a slow clock may change by a step or two") {
  Measurement measurement = healthy_measurement();
  measurement.rank_clocks[1] = {.before_hz = 345e6, .after_hz = 405e6, .max_hz = 1.98e9, .throttle_reasons = {}};
  CHECK(warnings(measurement).empty());
  measurement.rank_clocks[1].after_hz = 420e6;
  check_one(measurement, {"clock of rank 5 moved between 345 and 420 MHz"});
}

TEST_CASE("warnings: a moving clock is reported with its ranks, in both directions") {
  for (const auto& [before_hz, after_hz] : {std::pair{1.98e9, 1.4e9}, {1.4e9, 1.98e9}}) {
    Measurement measurement = healthy_measurement();
    measurement.rank_clocks[1].before_hz = measurement.rank_clocks[3].before_hz = before_hz;
    measurement.rank_clocks[1].after_hz = measurement.rank_clocks[3].after_hz = after_hz;
    check_one(measurement, {"clock of ranks 5 7 moved between 1400 and 1980 MHz", "-w", "-lgc"});
    measurement.rank_clocks[1].before_hz = measurement.rank_clocks[3].after_hz = std::nullopt;
    CHECK(warnings(measurement).empty());
  }
}

TEST_CASE("warnings: name the throttle reasons of a device") {
  Measurement measurement = healthy_measurement();
  measurement.rank_clocks[0].throttle_reasons = {"power limit"};
  measurement.rank_clocks[3].throttle_reasons = {"heat", "power limit"};
  check_one(measurement, {"ranks 4 7", "heat, power limit", "nvidia-smi"});
  measurement.rank_clocks[3].throttle_reasons.clear();
  check_one(measurement, {"rank 4 is slowed by power limit"});
}
