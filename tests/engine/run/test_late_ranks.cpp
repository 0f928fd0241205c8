#include "run/late_ranks.hpp"

#include <limits>

#include "support_errors.hpp"

using namespace busbw;

namespace {

std::vector<RankInfo> ranks_4_to_7() {
  std::vector<RankInfo> ranks;
  for (const auto& [rank, host] : {std::pair{4, "a"}, {5, "a"}, {6, "b"}, {7, "b"}})
    ranks.push_back({.rank = rank, .host = host, .bus_id = {}, .device_name = {}});
  return ranks;
}

/// An ordinary measurement of four ranks on devices.
Measurement ordinary() {
  Measurement measurement;
  measurement.time_s = 20e-6;
  measurement.sample_clock = SampleClock::gated_device_events;
  measurement.device_time_s = 9e-6;
  measurement.rank_launch_times_s = {12e-6, 12e-6, 13e-6, 12e-6};
  measurement.rank_arrivals_s = {0, 3e-6, 1e-6, 2e-6};
  return measurement;
}

/// An ordinary measurement of four ranks on the host.
Measurement on_host() {
  Measurement measurement;
  measurement.time_s = 100e-6;
  measurement.rank_arrivals_s = {0, 0.1e-6, 0, 0.2e-6};
  measurement.rank_arrival_bounds_s = {{-1e-7, 5e-6}, {0, 3e-7}, {-1e-7, 2e-7}, {0, 4e-7}};
  return measurement;
}

/// `measurement` with rank 6 so late at each iteration.
Measurement late_by(Measurement measurement, double median_s, std::pair<double, double> bounds_s) {
  measurement.rank_arrivals_s[2] = median_s;
  measurement.rank_arrival_bounds_s[2] = bounds_s;
  return measurement;
}

std::vector<LateRank> late_ranks(const Measurement& measurement, double operations_per_iteration = 1) {
  return find_late_ranks({measurement, 20, operations_per_iteration}, nullptr, ranks_4_to_7());
}

bool finds(const Measurement& measurement, const Measurement& other) {
  const TimedMeasurement in_the_other{other, 20, 1};
  return !find_late_ranks({measurement, 20, 1}, &in_the_other, ranks_4_to_7()).empty();
}

void check_one(const Measurement& measurement, LateRank::Kind kind, double late_us,
               std::initializer_list<std::string_view> words) {
  const auto found = late_ranks(measurement);
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == kind);
  CHECK(found[0].late_s * 1e6 == doctest::Approx(late_us));
  check_names(found[0].message, words);
}

}  // namespace

TEST_CASE("late ranks: none in an ordinary measurement, or without figures of ranks") {
  CHECK(late_ranks(ordinary()).empty());
  CHECK(late_ranks(on_host()).empty());
  CHECK(late_ranks({}).empty());
}

TEST_CASE("late ranks: a rank that starts each iteration after all others, with host and delay") {
  const Measurement late = late_by(on_host(), 60e-6, {50e-6, 70e-6});
  check_one(late, LateRank::Kind::late_start, 59.8,
            {"rank 6 on b starts each iteration 60 us after all others, 60 % of its time", "host", "CPU binding"});
  CHECK(late_ranks(late)[0].rank == 6);
  CHECK(late_ranks(late)[0].host == "b");
}

TEST_CASE("late ranks: a start counts only if its interval is above those of all others") {
  const auto is_late = [](const Measurement& measurement, double operations = 1) {
    return !late_ranks(measurement, operations).empty();
  };
  CHECK(is_late(late_by(on_host(), 60e-6, {16e-6, 70e-6})));
  CHECK_FALSE(is_late(late_by(on_host(), 60e-6, {14e-6, 70e-6})));  // 9 us above the interval of rank 4
  Measurement two = late_by(on_host(), 60e-6, {50e-6, 70e-6});
  two.rank_arrival_bounds_s[3].second = 55e-6;  // rank 7 may be as late
  CHECK_FALSE(is_late(two));
  // 45 us are at least 10 % of one operation, but not of 10 in an iteration.
  CHECK(is_late(late_by(on_host(), 60e-6, {50e-6, 70e-6}), 4));
  CHECK_FALSE(is_late(late_by(on_host(), 60e-6, {50e-6, 70e-6}), 10));
  Measurement few = late_by(on_host(), 60e-6, {50e-6, 70e-6});
  few.rank_arrival_bounds_s.clear();  // too few iterations for an interval
  few.rank_arrivals_s[2] = 1;
  CHECK_FALSE(is_late(few));
}

TEST_CASE("late ranks: names a rank that is slow to launch, if launches dominate the time") {
  Measurement measurement = ordinary();
  measurement.rank_launch_times_s[2] = 31e-6;
  check_one(measurement, LateRank::Kind::slow_launch, 19,
            {"rank 6 on b takes 31.0 us to launch", "others take 12.0 us", "CPU binding"});
  measurement.rank_launch_times_s[2] = 24e-6;  // twice as much
  CHECK(late_ranks(measurement).empty());
  measurement.rank_launch_times_s = {5e-6, 5e-6, 14.9e-6, 5e-6};  // the difference is 9.9 us
  CHECK(late_ranks(measurement).empty());
  measurement.rank_launch_times_s = {12e-6, 12e-6, 31e-6, 12e-6};
  measurement.device_time_s = 400e-6;
  CHECK(late_ranks(measurement).empty());
  measurement.device_time_s.reset();
  CHECK(late_ranks(measurement).empty());
}

TEST_CASE("late ranks: with two ranks, names the one that is slower to launch") {
  Measurement measurement = ordinary();
  measurement.rank_launch_times_s = {31e-6, 12e-6};
  measurement.rank_arrivals_s.clear();
  check_one(measurement, LateRank::Kind::slow_launch, 19, {"rank 4 on a takes 31.0 us"});
}

TEST_CASE("late ranks: names a late rank if waiting for it is a large part of the time") {
  Measurement measurement = ordinary();
  measurement.rank_arrivals_s = {0, 3e-6, 203e-6, 2e-6};  // of 400 us in total
  check_one(measurement, LateRank::Kind::late_first, 200,
            {"rank 6 on b began 200 us after all others", "50 %", "-n", "host"});
  measurement.rank_arrivals_s[0] = 150e-6;  // another rank is nearly as late
  CHECK(late_ranks(measurement).empty());
  measurement.rank_arrivals_s[0] = 0;
  measurement.time_s = 200e-6;
  CHECK(late_ranks(measurement).empty());
  measurement.time_s = 20e-6;
  measurement.rank_arrivals_s[2] = 90e-6;
  CHECK(late_ranks(measurement).empty());
}

TEST_CASE("late ranks: none for ranks if there are few operations") {
  Measurement measurement = ordinary();
  measurement.rank_launch_times_s[2] = 31e-6;
  measurement.rank_arrivals_s[1] = 300e-6;
  CHECK(late_ranks(measurement).size() == 2);
  CHECK(find_late_ranks({measurement, 19, 1}, nullptr, ranks_4_to_7()).empty());
}

TEST_CASE("late ranks: none for a rank that stands out in one placement only") {
  Measurement slow = ordinary();
  slow.rank_launch_times_s[2] = 31e-6;
  Measurement another_slow = ordinary();
  another_slow.rank_launch_times_s[0] = 31e-6;
  Measurement late = ordinary();
  late.rank_arrivals_s[2] = 203e-6;
  Measurement another_late = ordinary();
  another_late.rank_arrivals_s[0] = 203e-6;
  const Measurement starts_late = late_by(on_host(), 60e-6, {50e-6, 70e-6});
  Measurement another_starts_late = on_host();
  another_starts_late.rank_arrivals_s[0] = 60e-6;
  another_starts_late.rank_arrival_bounds_s[0] = {50e-6, 70e-6};
  for (const auto& [one, another] :
       {std::pair{slow, another_slow}, {late, another_late}, {starts_late, another_starts_late}}) {
    CHECK(finds(one, one));
    CHECK_FALSE(finds(one, another));
    CHECK_FALSE(finds(one, ordinary()));
    CHECK_FALSE(finds(ordinary(), one));
  }
  CHECK_FALSE(finds(slow, late));
}
