// Complete runs: ranks are threads of a LocalJob on the host backend.
#include "run/rank_runner.hpp"

#include <algorithm>

#include "measure/bandwidth.hpp"
#include "support_collective.hpp"
#include "support_errors.hpp"
#include "support_run.hpp"

using namespace busbw;

namespace {

/// Removes late-rank warnings, which a busy machine may add.
std::vector<std::string> warnings_of_target(const RunSeen& seen) {
  std::vector<std::string> all = seen.row().out_of_place->warnings;
  std::erase_if(all, [](const std::string& one) { return one.find("--target-ci") == one.npos; });
  return all;
}

}  // namespace

TEST_CASE("run_rank: every collective, in and out of place, is correct and has rows with correct sizes and counts") {
  const std::vector<std::uint64_t> sizes{1, 8, 256, 4000, 40'001};
  for (const CollectiveEntry& entry : all_collectives()) {
    const std::string name(entry.name);
    const auto collective = entry.make({});
    for (const int ranks : {1, 2, 3, 4}) {
      if (!collective->rank_count_error(ranks).empty()) continue;
      CAPTURE(name);
      CAPTURE(ranks);
      const RunSeen seen =
          run_well({.collective = name,
                    .ranks = ranks,
                    .sizes_bytes = sizes,
                    .configurations = {configuration_of(name, 0), configuration_of(name, ranks - 1, Dtype::float16)}});
      REQUIRE(seen.cases.size() == 2 * sizes.size());
      check_all_right(seen);
      for (std::size_t i = 0; i < seen.cases.size(); ++i) {
        REQUIRE(seen.cases[i].size() == 1);
        const Row& row = seen.cases[i][0];
        const std::size_t width = i < sizes.size() ? 4 : 2;
        const Shape shape = collective->shape(sizes[i % sizes.size()] / width, width, ranks);
        CHECK(row.collective == name);
        CHECK(row.requested_bytes == sizes[i % sizes.size()]);
        CHECK(row.size_bytes == std::max(shape.send_count, shape.recv_count) * width);
        CHECK(row.count == shape.param_count);
        CHECK(row.group_ranks == ranks);
        REQUIRE(row.out_of_place);
        REQUIRE(row.in_place);
        CHECK(row.out_of_place->check.state == CheckResult::State::checked);
        CHECK(row.in_place->check.state ==
              (collective->in_place_defined() ? CheckResult::State::checked : CheckResult::State::not_applicable));
        for (const auto* side : {&row.out_of_place, &row.in_place}) {
          const Bandwidth reached = bandwidth(collective->traffic(shape, width, ranks), (*side)->time_s);
          CHECK((*side)->busbw_bytes_per_s == doctest::Approx(reached.busbw_bytes_per_s));
          CHECK((*side)->algbw_bytes_per_s == doctest::Approx(reached.algbw_bytes_per_s));
          CHECK((*side)->rank_samples_s.size() == static_cast<std::size_t>(ranks));
          CHECK((*side)->operation_s.size() == 3);
          CHECK((*side)->stopped_by == StopReason::iterations);
        }
      }
    }
  }
}

TEST_CASE("run_rank: every type and operator is correct") {
  RunSetup setup{.ranks = 3, .sizes_bytes = {600}, .configurations = {}, .placements = {Placement::in_place}};
  for (const Dtype dtype : kDtypes)
    for (const Redop redop : kRedops) setup.configurations.push_back({dtype, redop, std::string(name(redop)), -1});
  const RunSeen seen = run_well(setup);
  REQUIRE(seen.cases.size() == kDtypes.size() * kRedops.size());
  check_all_right(seen);
  for (std::size_t i = 0; i < seen.cases.size(); ++i) {
    CHECK(seen.cases[i][0].dtype == setup.configurations[i].dtype);
    CHECK(seen.cases[i][0].redop == setup.configurations[i].redop_name);
    CHECK_FALSE(seen.cases[i][0].in_place->check.exactness.empty());
  }
}

TEST_CASE("run_rank: every root is correct, in and out of place") {
  for (const char* collective : {"broadcast", "reduce", "gather", "scatter"}) {
    CAPTURE(collective);
    RunSetup setup{.collective = collective, .ranks = 4, .sizes_bytes = {777}, .configurations = {}};
    for (int root = 0; root < 4; ++root) setup.configurations.push_back(configuration_of(collective, root));
    const RunSeen seen = run_well(setup);
    check_all_right(seen);
    REQUIRE(seen.cases.size() == 4);
    for (int root = 0; root < 4; ++root) CHECK(seen.cases[static_cast<std::size_t>(root)][0].root == root);
  }
}

TEST_CASE("run_rank: rank 0 knows every rank before the first row") {
  const RunSeen seen = run_well({.ranks = 3});
  REQUIRE(seen.ranks.size() == 3);
  for (int rank = 0; rank < 3; ++rank) {
    const RankInfo& info = seen.ranks[static_cast<std::size_t>(rank)];
    CHECK(info.rank == rank);
    CHECK(info.group == 0);
    CHECK(info.process == rank);
    CHECK(info.pid == getpid());
    CHECK(info.bus_id == "cpu");
    CHECK_FALSE(info.host.empty());
    CHECK_FALSE(info.device_name.empty());
  }
}

TEST_CASE("run_rank: -c 0 checks nothing, and -c 3 stops at the first failed check") {
  RunSetup setup;
  setup.settings.check_iterations = 0;
  const RunSeen unchecked = run_well(setup);
  CHECK(unchecked.row().out_of_place->check.state == CheckResult::State::not_checked);
  CHECK(unchecked.row().in_place->check.state == CheckResult::State::not_checked);
  setup.fault = "flip:rank=1,index=7,bit=3";
  CHECK(run_well(setup).row().out_of_place->check.wrong_elements == 0);
  setup.settings.check_iterations = 3;
  CHECK(run_well(setup).row().out_of_place->check.wrong_elements == 1);
  CHECK(run_well(setup).row().out_of_place->check.wrong_ranks == 1);
}

TEST_CASE("run_rank: only the requested placements are measured") {
  for (const Placement placement : {Placement::out_of_place, Placement::in_place}) {
    const RunSeen seen = run_well({.placements = {placement}});
    CHECK(seen.row().out_of_place.has_value() == (placement == Placement::out_of_place));
    CHECK(seen.row().in_place.has_value() == (placement == Placement::in_place));
  }
}

TEST_CASE("run_rank: cycles repeat the sizes of each configuration, and number them") {
  RunSetup setup{.sizes_bytes = {64, 128},
                 .configurations = {configuration_of("all_reduce", -1), configuration_of("all_reduce", -1)}};
  setup.settings.run_cycles = 3;
  const RunSeen seen = run_well(setup);
  REQUIRE(seen.cases.size() == 2 * 3 * 2);
  for (std::size_t i = 0; i < seen.cases.size(); ++i) {
    CHECK(seen.cases[i][0].cycle == static_cast<int>(i / 2 % 3));
    CHECK(seen.cases[i][0].requested_bytes == (i % 2 == 0 ? 64 : 128));
  }
}

TEST_CASE("run_rank: groups run concurrently, each with its own correct rows") {
  for (const char* collective : {"all_reduce", "alltoall", "broadcast", "sendrecv"}) {
    CAPTURE(collective);
    const RunSeen seen = run_well({.collective = collective,
                                   .ranks = 5,
                                   .sizes_bytes = {960, 20'000},
                                   .configurations = {configuration_of(collective, 1)},
                                   .split = {Split::Op::modulo, 2}});
    REQUIRE(seen.cases.size() == 2);
    check_all_right(seen);
    for (const CaseRows& rows : seen.cases) {
      REQUIRE(rows.size() == 2);
      CHECK(rows[0].group == 0);
      CHECK(rows[0].group_ranks == 3);
      CHECK(rows[1].group == 1);
      CHECK(rows[1].group_ranks == 2);
      CHECK(rows[0].out_of_place->rank_samples_s.size() == 3);
      CHECK(rows[1].out_of_place->rank_samples_s.size() == 2);
    }
    for (const RankInfo& info : seen.ranks) CHECK(info.group == info.rank % 2);
  }
}

TEST_CASE("run_rank: -m, -u and -z change neither the check nor the number of samples") {
  for (const int blocking : {0, 1, 2, 3})
    for (const int unalign : {0, 3}) {
      CAPTURE(blocking);
      CAPTURE(unalign);
      RunSetup setup{.ranks = 3, .sizes_bytes = {100, 5000}};
      setup.settings.blocking = blocking;
      setup.settings.unalign_elements = unalign;
      setup.settings.aggregated_iterations = 3;
      const RunSeen seen = run_well(setup);
      check_all_right(seen);
      for (const Measurement* measurement : measurements_of(seen)) {
        CHECK(measurement->operation_s.size() == 3);
        CHECK(measurement->time_s > 0);
        // The mean over ranks lies between the times of single ranks.
        const auto [shortest, longest] = std::ranges::minmax(measurement->rank_times_s);
        CHECK(measurement->time_s >= shortest * 0.9999);
        CHECK(measurement->time_s <= longest * 1.0001);
      }
    }
}

TEST_CASE("run_rank: --target-ci samples in batches until it is met") {
  RunSetup setup{.placements = {Placement::out_of_place}};
  setup.settings.target_ci = 0.99;
  const RunSeen seen = run_well(setup);
  const Measurement& measurement = *seen.row().out_of_place;
  CHECK(measurement.stopped_by == StopReason::target_ci);
  CHECK(measurement.operation_s.size() >= 6);  // at least 6 samples are needed for an interval
  CHECK(measurement.operation_s.size() % 3 == 0);
  for (const auto& rank : measurement.rank_samples_s) CHECK(rank.size() == measurement.operation_s.size());
  CHECK(warnings_of_target(seen).empty());
  CHECK(measurement.statistics.samples == measurement.operation_s.size());
}

TEST_CASE("run_rank: --max-time ends sampling that does not converge, with a warning") {
  RunSetup setup{.placements = {Placement::out_of_place}};
  setup.settings.max_time_s = 0.02;
  const RunSeen budget = run_well(setup);
  CHECK(budget.row().out_of_place->stopped_by == StopReason::max_time);
  CHECK(warnings_of_target(budget).empty());
  setup.settings.target_ci = 1e-9;
  setup.sizes_bytes = {100'000};
  const RunSeen unsettled = run_well(setup);
  CHECK(unsettled.row().out_of_place->stopped_by == StopReason::max_time);
  const auto said = warnings_of_target(unsettled);
  REQUIRE(said.size() == 1);
  check_names(said[0], {"--target-ci", "--max-time"});
}

TEST_CASE("run_rank: ping-pong runs between pairs") {
  for (const int ranks : {2, 4}) {
    const RunSeen seen = run_well({.collective = "sendrecv",
                                   .ranks = ranks,
                                   .sizes_bytes = {8, 100'000},
                                   .collective_settings = {.alltoallv = {}, .ping_pong = true}});
    check_all_right(seen);
    CHECK(seen.cases.size() == 2);
  }
}

TEST_CASE("run_rank: alltoallv by matrix, where ranks send different amounts") {
  const RunSeen seen =
      run_well({.collective = "alltoallv",
                .ranks = 3,
                .sizes_bytes = {1024},
                .collective_settings = {
                    .alltoallv = {.pattern = ByteMatrix{{3, {96, 192, 144, 0, 96, 64, 288, 0, 192}}, 1, 1024},
                                  .print_summary = true}}});
  check_all_right(seen);
  CHECK(seen.row().size_bytes == 480);
  CHECK(seen.row().count == 0);
  CHECK(seen.row().comments.size() == 2 * 4);  // per placement one title and three ranks
}
