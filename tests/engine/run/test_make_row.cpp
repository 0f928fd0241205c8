#include "run/make_row.hpp"

#include <algorithm>

#include "collectives/registry.hpp"
#include "support_errors.hpp"

using namespace busbw;

namespace {

/// A plan for 4 ranks with invented reports.
struct RowScene {
  explicit RowScene(const char* name, CollectiveSettings of = {}) : collective(make_collective(name, of)) {
    settings.processes = 4;
    settings.iterations = 2;
    for (const int rank : {4, 5, 6, 7}) ranks.push_back({.rank = rank, .host = "a", .bus_id = {}, .device_name = {}});
  }
  Row row(const std::map<Placement, PlacementReport>& placements, const std::string& policy = "exact") const {
    RunPlan plan{*collective, {}, settings, {}, {}, 1 << 20};
    plan.balanced = balanced;
    return make_row(plan, {configuration, requested_bytes, 3, 2, ranks}, placements, policy);
  }
  Row out_of_place(const PlacementReport& report) const { return row({{Placement::out_of_place, report}}); }

  std::unique_ptr<Collective> collective;
  std::shared_ptr<Collective> balanced = {};
  RunSettings settings;
  std::vector<RankInfo> ranks;
  Configuration configuration{Dtype::float32, Redop::sum, "sum", -1};
  std::uint64_t requested_bytes = 4096;
};

RankReport rank_report(double first_s, double second_s, std::uint64_t operations) {
  const double total_s = first_s + second_s;
  return {{.operation_s = {first_s, second_s},
           .total = {.elapsed_s = total_s, .issue_s = total_s / 2, .operations = operations}},
          {}};
}

/// Four ranks that took 1, 2, 3 and 6 ms for two iterations together, and half of that to issue them.
PlacementReport report(std::uint64_t operations = 2) {
  return {{rank_report(0.0004, 0.0006, operations), rank_report(0.001, 0.001, operations),
           rank_report(0.0015, 0.0015, operations), rank_report(0.004, 0.002, operations)},
          StopReason::iterations};
}

/// The same ranks on devices on which an operation takes 0.2, 0.2, 0.3 and 0.3 ms.
PlacementReport on_devices(std::uint64_t operations = 2) {
  PlacementReport made = report(operations);
  for (std::size_t i = 0; i < made.ranks.size(); ++i) {
    Samples& samples = made.ranks[i].samples;
    samples.clock = SampleClock::gated_device_events;
    samples.first_iteration_s = samples.operation_s.front();
    samples.device_s = i < 2 ? 0.002 : 0.003;
    samples.device_operations = 10;
  }
  return made;
}

WrongElement wrong(int rank, std::int64_t index) { return {rank, "receive buffer", index, "1", "2"}; }

}  // namespace

TEST_CASE("make_row: labels, sizes and counts") {
  RowScene scene("all_gather");
  scene.requested_bytes = 4100;
  scene.configuration = {Dtype::float16, Redop::sum, "none", -1};
  const Row row = scene.out_of_place(report());
  CHECK(row.group == 3);
  CHECK(row.cycle == 2);
  CHECK(row.group_ranks == 4);
  CHECK(row.collective == "all_gather");
  CHECK(row.requested_bytes == 4100);
  CHECK(row.size_bytes == 4096);
  CHECK(row.count == 512);
  CHECK(row.dtype == Dtype::float16);
  CHECK(row.redop == "none");
  CHECK(row.root == -1);
  CHECK(row.out_of_place);
  CHECK_FALSE(row.in_place);
  CHECK(row.timestamp.size() == std::string("2026-11-21 08:16:39").size());
}

TEST_CASE("make_row: time by -a, per operation, and its bandwidth") {
  struct Expected {
    int average;
    double time_s;
  };
  for (const Expected& expected : {Expected{0, 0.0005}, {1, 0.0015}, {2, 0.0005}, {3, 0.003}}) {
    CAPTURE(expected.average);
    RowScene scene("all_reduce");
    scene.settings.average = expected.average;
    const Measurement measurement = *scene.out_of_place(report()).out_of_place;
    CHECK(measurement.time_s == doctest::Approx(expected.time_s));
    CHECK(measurement.algbw_bytes_per_s == doctest::Approx(4096 / expected.time_s));
    CHECK(measurement.busbw_bytes_per_s == doctest::Approx(4096 / expected.time_s * 1.5));
  }
}

TEST_CASE("make_row: times are divided by all operations that were timed") {
  CHECK(RowScene("all_reduce").out_of_place(report(10)).out_of_place->time_s == doctest::Approx(0.0003));
}

TEST_CASE("make_row: a device has three named times, each combined by -a, and per rank") {
  RowScene scene("all_reduce");
  const Measurement measurement = *scene.out_of_place(on_devices()).out_of_place;
  CHECK(measurement.time_s == doctest::Approx(0.0015));
  CHECK(measurement.device_time_s == doctest::Approx(0.00025));
  CHECK(measurement.sample_clock == SampleClock::gated_device_events);
  CHECK(measurement.launch_time_s == doctest::Approx(0.00075));
  CHECK_FALSE(measurement.cpu_time_s);
  CHECK(measurement.rank_times_s == std::vector<double>{0.0005, 0.001, 0.0015, 0.003});
  REQUIRE(measurement.rank_device_times_s.size() == 4);
  CHECK(measurement.rank_device_times_s[1] == doctest::Approx(0.0002));
  CHECK(measurement.rank_device_times_s[3] == doctest::Approx(0.0003));
  CHECK(measurement.rank_launch_times_s == std::vector<double>{0.00025, 0.0005, 0.00075, 0.0015});
  // The first iteration of rank 3 took 4 ms, 0.3 ms of them its own duration: it arrived first.
  REQUIRE(measurement.rank_arrivals_s.size() == 4);
  CHECK(measurement.rank_arrivals_s[3] == 0);
  CHECK(measurement.rank_arrivals_s[0] == doctest::Approx(0.0035));
  CHECK(measurement.rank_clocks.empty());
  scene.settings.average = 3;
  CHECK(scene.out_of_place(on_devices()).out_of_place->device_time_s == doctest::Approx(0.0003));
}

TEST_CASE("make_row: no late rank if ranks do not all wait for each other") {
  for (const char* name : {"broadcast", "reduce", "gather", "scatter", "sendrecv"}) {
    const Measurement measurement = *RowScene(name).out_of_place(on_devices()).out_of_place;
    CHECK(measurement.rank_device_times_s.size() == 4);
    CHECK(measurement.rank_arrivals_s.empty());
  }
}

TEST_CASE("make_row: on the host a rank that starts each iteration late is named, also by a collective with a root") {
  for (const char* name : {"all_reduce", "broadcast"}) {
    PlacementReport late = report();
    for (RankReport& rank : late.ranks) rank.samples.start_delay = StartDelay{1e-6, {{1e-6, 2e-6}}};
    late.ranks[2].samples.start_delay = StartDelay{901e-6, {{900e-6, 902e-6}}};
    const Measurement measurement = *RowScene(name).out_of_place(late).out_of_place;
    REQUIRE(measurement.rank_arrivals_s.size() == 4);
    CHECK(measurement.rank_arrivals_s[0] == 0);
    CHECK(measurement.rank_arrivals_s[2] == doctest::Approx(900e-6));
    REQUIRE(measurement.late_ranks.size() == 1);
    CHECK(measurement.late_ranks[0].rank == 6);
    REQUIRE(measurement.warnings.size() == 1);
    check_names(measurement.warnings[0], {"rank 6 on a", "900 us"});
  }
}

TEST_CASE("make_row: one time if a call returns only after its operation") {
  const Measurement measurement = *RowScene("all_reduce").out_of_place(report()).out_of_place;
  CHECK_FALSE(measurement.device_time_s);
  CHECK(measurement.sample_clock == SampleClock::host);
  CHECK_FALSE(measurement.launch_time_s);
  CHECK(measurement.rank_device_times_s.empty());
  CHECK(measurement.rank_launch_times_s.empty());
  CHECK(measurement.rank_arrivals_s.empty());
}

TEST_CASE("make_row: clocks of all devices, unknown ones missing; warnings name ranks of the job") {
  PlacementReport told = on_devices(20);
  told.ranks[3].samples.total.issue_s = 0;
  told.ranks[1].samples.total.issue_s = 0.05;
  told.ranks[1].samples.clock_before =
      DeviceClockState{.clock_hz = 1.98e9, .max_clock_hz = 2e9, .throttle_reasons = {}};
  told.ranks[1].samples.clock_after =
      DeviceClockState{.clock_hz = 1.4e9, .max_clock_hz = 2e9, .throttle_reasons = {"power limit"}};
  const Measurement measurement = *RowScene("all_reduce").out_of_place(told).out_of_place;
  REQUIRE(measurement.rank_clocks.size() == 4);
  CHECK_FALSE(measurement.rank_clocks[0].before_hz);
  CHECK(measurement.rank_clocks[1].before_hz == 1.98e9);
  CHECK(measurement.rank_clocks[1].after_hz == 1.4e9);
  CHECK(measurement.rank_clocks[1].max_hz == 2e9);
  CHECK(measurement.rank_clocks[1].throttle_reasons == std::vector<std::string>{"power limit"});
  const auto names_rank = [](const std::string& sentence) { return sentence.find("rank 5 ") != std::string::npos; };
  CHECK(std::ranges::count_if(measurement.warnings, names_rank) == 3);
}

TEST_CASE("make_row: a rank that is slow to launch is reported for both placements or for none") {
  PlacementReport slow = on_devices(20);
  slow.ranks[3].samples.total.issue_s = 0.1;
  const auto warnings = [](const PlacementReport& out_of_place, const PlacementReport& in_place) {
    const Row row =
        RowScene("all_reduce").row({{Placement::out_of_place, out_of_place}, {Placement::in_place, in_place}});
    const auto is_slow = [](const std::string& warning) { return warning.find("to launch") != std::string::npos; };
    return std::vector{std::ranges::count_if(row.out_of_place->warnings, is_slow),
                       std::ranges::count_if(row.in_place->warnings, is_slow)};
  };
  CHECK(warnings(slow, slow) == std::vector<std::ptrdiff_t>{1, 1});
  CHECK(warnings(slow, on_devices(20)) == std::vector<std::ptrdiff_t>{0, 0});
  CHECK(warnings(on_devices(20), slow) == std::vector<std::ptrdiff_t>{0, 0});
}

TEST_CASE("make_row: skipped iterations are noted with -I, and -K counts them") {
  RowScene scene("all_reduce");
  PlacementReport made = report();
  for (RankReport& rank : made.ranks) rank.samples.skipped_iterations = 1;
  CHECK(scene.out_of_place(made).comments.empty());
  scene.settings.per_iteration = true;
  const auto samples = [&](int skipped) {
    scene.settings.per_iteration_skip = skipped;
    const Row row = scene.out_of_place(made);
    REQUIRE(row.comments.size() == 1);
    CHECK(row.comments[0].find("without the first") != std::string::npos);
    return row.out_of_place->statistics.samples;
  };
  CHECK(samples(0) == 2);
  CHECK(samples(1) == 2);
  CHECK(samples(2) == 1);
}

TEST_CASE("make_row: an iteration takes as long as its last rank, and the summary is over those") {
  const Measurement measurement = *RowScene("all_reduce").out_of_place(report()).out_of_place;
  CHECK(measurement.operation_s == std::vector<double>{0.004, 0.002});
  CHECK(measurement.rank_times_s.size() == 4);
  CHECK(measurement.rank_samples_s.size() == 4);
  CHECK(measurement.rank_samples_s[0] == std::vector<double>{0.0004, 0.0006});
  CHECK(measurement.statistics.samples == 2);
  CHECK(measurement.statistics.max_s == 0.004);
  CHECK(measurement.statistics.mean_s == doctest::Approx(0.003));
}

TEST_CASE("make_row: -K skips samples of the summary, not of the time") {
  RowScene scene("all_reduce");
  scene.settings.per_iteration = true;
  scene.settings.per_iteration_skip = 1;
  const Measurement measurement = *scene.out_of_place(report()).out_of_place;
  CHECK(measurement.statistics.samples == 1);
  CHECK(measurement.statistics.max_s == 0.002);
  CHECK(measurement.operation_s.size() == 2);
  CHECK(measurement.time_s == doctest::Approx(0.0015));
}

TEST_CASE("make_row: with -I and several processes, the slowest rank of each process") {
  RowScene scene("all_reduce");
  CHECK(scene.out_of_place(report()).out_of_place->process_max_s.empty());
  scene.settings.per_iteration = true;
  scene.settings.processes = 2;
  scene.settings.threads = 2;
  CHECK(scene.out_of_place(report()).out_of_place->process_max_s ==
        std::vector<std::vector<double>>{{0.001, 0.001}, {0.004, 0.002}});
  scene.settings.processes = 1;
  scene.settings.threads = 4;
  CHECK(scene.out_of_place(report()).out_of_place->process_max_s.empty());
}

TEST_CASE("make_row: -C adds the issue time, combined over ranks as the time") {
  RowScene scene("all_reduce");
  CHECK_FALSE(scene.out_of_place(report()).out_of_place->cpu_time_s);
  scene.settings.report_cputime = true;
  CHECK(scene.out_of_place(report()).out_of_place->cpu_time_s == doctest::Approx(0.00075));
}

TEST_CASE("make_row: wrong elements are summed over ranks, and the first few are kept") {
  PlacementReport bad = report();
  bad.ranks[1].check_result = {7, {wrong(1, 0), wrong(1, 3), wrong(1, 4)}};
  bad.ranks[3].check_result = {2, {wrong(3, 8), wrong(3, 9)}};
  const CheckResult check = RowScene("all_reduce").out_of_place(bad).out_of_place->check;
  CHECK(check.state == CheckResult::State::checked);
  CHECK(check.wrong_elements == 9);
  CHECK(check.wrong_ranks == 2);
  CHECK(check.exactness == "exact");
  REQUIRE(check.first_wrong.size() == Mismatches::kKept);
  CHECK(check.first_wrong[0].rank == 1);
  CHECK(check.first_wrong[3].rank == 3);
  CHECK(check.first_wrong[3].index == 8);
}

TEST_CASE("make_row: not checked, not applicable and correct are distinguished") {
  const auto state = [](const char* name, Placement placement, int checks) {
    RowScene scene(name);
    scene.settings.check_iterations = checks;
    const Row row = scene.row({{placement, report()}});
    return (placement == Placement::in_place ? row.in_place : row.out_of_place)->check.state;
  };
  using State = CheckResult::State;
  CHECK(state("all_reduce", Placement::out_of_place, 1) == State::checked);
  CHECK(state("all_reduce", Placement::in_place, 1) == State::checked);
  CHECK(state("all_reduce", Placement::in_place, 0) == State::not_checked);
  for (const char* name : {"alltoall", "alltoallv", "sendrecv"}) {
    CHECK(state(name, Placement::out_of_place, 1) == State::checked);
    CHECK(state(name, Placement::in_place, 1) == State::not_applicable);
    CHECK(state(name, Placement::in_place, 0) == State::not_checked);
  }
}

TEST_CASE("make_row: the row names the bound of the check") {
  const Row row = RowScene("all_reduce").row({{Placement::out_of_place, report()}}, "within 1 ulp");
  CHECK(row.out_of_place->check.exactness == "within 1 ulp");
}

TEST_CASE("make_row: alltoallv's summary follows the row, for each placement, with nccl-tests' figures") {
  RowScene scene("alltoallv", {.alltoallv = {.pattern = DistanceSpread{0}, .print_summary = true}});
  const Row row = scene.row({{Placement::out_of_place, report()}, {Placement::in_place, report()}});
  REQUIRE(row.comments.size() == 2 * 5);
  CHECK(row.comments[0] ==
        "NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: mode=generated nranks=4 total_bytes=4096 spread=0.000 time_usec=1500.00");
  CHECK(row.comments[1] == "  rank=0 send_bytes=4096 recv_bytes=4096 alg_bw=0.00 bus_bw=0.00");
  CHECK(row.comments[4].starts_with("  rank=3 "));
  CHECK(row.comments[5] == row.comments[0]);
  CHECK(RowScene("alltoallv").row({{Placement::out_of_place, report()}}).comments.empty());
}

TEST_CASE("make_row: the algorithm is that of all ranks, unknown if one rank does not know its own") {
  const RowScene scene("all_reduce");
  PlacementReport reported = report();
  CHECK(scene.out_of_place(reported).out_of_place->algorithms.empty());
  for (RankReport& rank : reported.ranks) rank.samples.algorithms = {{"ring", "ll", 4}};
  CHECK(scene.out_of_place(reported).out_of_place->algorithms == std::vector<AlgorithmChoice>{{"ring", "ll", 4}});
  reported.ranks[2].samples.algorithms.clear();
  CHECK(scene.out_of_place(reported).out_of_place->algorithms.empty());
}

TEST_CASE("make_row: ranks that report several algorithms get a warning that names them") {
  const RowScene scene("all_reduce");
  PlacementReport reported = report();
  for (RankReport& rank : reported.ranks) rank.samples.algorithms = {{"ring", "ll", 4}};
  reported.ranks[3].samples.algorithms = {{"tree", "ll", 4}};
  const Row row = scene.out_of_place(reported);
  CHECK(row.out_of_place->algorithms.size() == 2);
  REQUIRE(row.out_of_place->warnings.size() == 1);
  check_names(row.out_of_place->warnings[0], {"ring/ll with 4 channels", "tree/ll with 4 channels", "NCCL_"});
}

TEST_CASE("make_row: the bound of an uneven operation is at the best rate, so no measured time beats it") {
  constexpr std::uint64_t kHalf = std::uint64_t{1} << 23;
  RowScene scene("alltoallv", {.alltoallv = {.pattern = ReceiverShares{{kHalf, 2 * kHalf, 2 * kHalf, 2 * kHalf}}}});
  scene.balanced = make_collective("alltoallv", {.alltoallv = {.pattern = DistanceSpread{0}}});
  scene.settings.average = 3;  // the last rank
  PlacementReport measured = report();  // 3 ms for each operation

  // Each rank sends 2048 bytes to ranks 0 and 1. These receive 6144 bytes from the others, twice an even share.
  const auto skew_if_balanced_takes = [&](double balanced_s) {
    measured.compared = std::vector(4, rank_report(balanced_s, balanced_s, 2));
    return scene.out_of_place(measured).out_of_place->skew.value();
  };
  const SkewComparison congested = skew_if_balanced_takes(0.001);
  CHECK(congested.busiest_bytes == 6144);
  CHECK(*congested.imbalance == doctest::Approx(2));
  CHECK(*congested.balanced_time_s == doctest::Approx(0.001));
  CHECK(*congested.bound_s == doctest::Approx(0.002));
  CHECK(*congested.ratio_to_bound == doctest::Approx(1.5));

  const SkewComparison faster_than_balanced = skew_if_balanced_takes(0.002);
  CHECK(*faster_than_balanced.bound_s == doctest::Approx(0.003));
  CHECK(*faster_than_balanced.ratio_to_bound == 1);
}
