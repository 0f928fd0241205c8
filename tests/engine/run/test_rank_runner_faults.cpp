// Runs with faults, which must be found and named.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "support_run.hpp"

using namespace busbw;

namespace {

/// A setup in which rank 1 has a result that ends, in place, at the end of the receive buffer.
RunSetup with_fault(std::string_view collective, const std::string& fault, int ranks = 2) {
  return {.collective = std::string(collective),
          .ranks = ranks,
          .sizes_bytes = {1024},
          .configurations = {configuration_of(std::string(collective), 1)},
          .fault = fault};
}

}  // namespace

TEST_CASE("run_rank: a fault affects one group only, and the row names the rank in the job") {
  RunSetup setup{.ranks = 4, .split = {Split::Op::divide, 2}, .fault = "flip:rank=3,index=7,bit=3"};
  const RunSeen seen = run_well(setup);
  REQUIRE(seen.cases[0].size() == 2);
  CHECK(seen.cases[0][0].out_of_place->check.wrong_elements == 0);
  const CheckResult& wrong = seen.cases[0][1].out_of_place->check;
  CHECK(wrong.wrong_elements == 1);
  REQUIRE(wrong.first_wrong.size() == 1);
  CHECK(wrong.first_wrong[0].rank == 3);
}

TEST_CASE("run_rank: one flipped bit of one rank is found in every collective, by rank and index") {
  for (const CollectiveEntry& entry : all_collectives()) {
    CAPTURE(entry.name);
    // With four ranks, a hypercube has two steps, and the second forwards the data of the first.
    const RunSeen seen = run_well(with_fault(entry.name, "flip:rank=1,index=7,bit=3", 4));
    for (const auto* side : {&seen.row().out_of_place, &seen.row().in_place}) {
      if ((*side)->check.state == CheckResult::State::not_applicable) continue;
      CHECK((*side)->check.wrong_elements == 1);
      CHECK((*side)->check.wrong_ranks == 1);
      REQUIRE((*side)->check.first_wrong.size() == 1);
      const WrongElement& wrong = (*side)->check.first_wrong[0];
      CHECK(wrong.rank == 1);
      CHECK(wrong.index == 7);
      CHECK(wrong.place == "receive buffer");
      CHECK(wrong.expected != wrong.got);
    }
  }
}

TEST_CASE("run_rank: a write past the end of a result is found in every collective") {
  for (const CollectiveEntry& entry : all_collectives()) {
    CAPTURE(entry.name);
    const RunSeen seen = run_well(with_fault(entry.name, "overrun:rank=1"));
    for (const auto* side : {&seen.row().out_of_place, &seen.row().in_place}) {
      if ((*side)->check.state == CheckResult::State::not_applicable) continue;
      CHECK((*side)->check.wrong_elements == 1);
      REQUIRE((*side)->check.first_wrong.size() == 1);
      CHECK((*side)->check.first_wrong[0].rank == 1);
    }
    const WrongElement& wrong = seen.row().out_of_place->check.first_wrong.at(0);
    CHECK(wrong.place == "guard after the receive buffer, byte");
    CHECK(wrong.index == 0);
  }
}

TEST_CASE("run_rank: in place, where the result lies inside the sent data, a write past its end is found too") {
  for (const char* collective : {"reduce_scatter", "scatter"}) {
    CAPTURE(collective);
    RunSetup setup = with_fault(collective, "overrun:rank=0");
    setup.configurations = {configuration_of(collective, 0)};
    const RunSeen seen = run_well(setup);
    CHECK(seen.row().in_place->check.wrong_elements == 1);
  }
}

TEST_CASE("run_rank: a fault that changes no result is an error") {
  const auto message_of = [](RunSetup setup) {
    const RunSeen seen = run_all_ranks(setup);
    REQUIRE(seen.failure);
    CHECK(seen.failure->exit == ExitCode::usage);
    return seen.failure->message;
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != text.npos; };
  // 1024 bytes have elements 0 to 255.
  CHECK(has(message_of(with_fault("all_reduce", "flip:rank=1,index=256,bit=3")),
            "no checked result of rank 1 has element 256"));
  CHECK(has(message_of(with_fault("all_reduce", "flip:rank=1,index=0,bit=32")), "with bit 32"));
  CHECK(has(message_of(with_fault("reduce", "overrun:rank=0")), "rank 0 has no checked result"));

  // One size of the sweep with the element is enough.
  RunSetup sweep = with_fault("all_reduce", "flip:rank=1,index=256,bit=3");
  sweep.sizes_bytes = {1024, 2048};
  CHECK(run_well(sweep).cases.size() == 2);
}

TEST_CASE("run_rank: a slow rank makes every iteration slow, but no data wrong") {
  RunSetup setup{.placements = {Placement::out_of_place}, .fault = "delay:rank=1,us=20000"};
  setup.settings.blocking = 1;
  const RunSeen seen = run_well(setup);
  check_all_right(seen);
  for (const double time_s : seen.row().out_of_place->operation_s) CHECK(time_s >= 0.003);
  CHECK(seen.row().out_of_place->time_s >= 0.003);
}

TEST_CASE("run_rank: a late rank is named with its delay, an ordinary one is not") {
  RunSetup setup{.collective = "all_gather", .ranks = 3};
  setup.settings.iterations = 10;
  for (const std::string fault : {"", "delay:rank=2,us=20000"}) {
    CAPTURE(fault);
    setup.fault = fault;
    const RunSeen seen = run_well(setup);
    for (const auto* measurement : {&*seen.row().out_of_place, &*seen.row().in_place}) {
      CHECK(measurement->rank_arrivals_s.size() == 3);
      REQUIRE(measurement->late_ranks.size() == (fault.empty() ? 0 : 1));
      if (fault.empty()) continue;
      const LateRank& late = measurement->late_ranks[0];
      CHECK(late.kind == LateRank::Kind::late_start);
      CHECK(late.rank == 2);
      CHECK(late.host == seen.ranks[2].host);
      CHECK(late.late_s >= 0.0029);
    }
  }
}

TEST_CASE("run_rank: late ranks of groups are numbered in the job") {
  RunSetup setup{.ranks = 4, .split = {Split::Op::divide, 2}, .fault = "delay:rank=3,us=20000"};
  setup.settings.iterations = 10;
  const RunSeen seen = run_well(setup);
  REQUIRE(seen.cases[0].size() == 2);
  CHECK(seen.cases[0][0].out_of_place->late_ranks.empty());
  REQUIRE(seen.cases[0][1].out_of_place->late_ranks.size() == 1);
  CHECK(seen.cases[0][1].out_of_place->late_ranks[0].rank == 3);
}

TEST_CASE("run_rank: an error in a callback ends all ranks and keeps the rows so far") {
  const auto collective = make_collective("all_reduce", {});
  RunSettings settings = RunSetup::few_iterations();
  settings.processes = 3;
  const RunPlan plan{*collective, {{{Dtype::float32, Redop::sum, "sum", -1}}, {64, 128, 256}, 1},
                     settings,    {Placement::out_of_place},
                     {},          256};
  SharedMemoryBackend backend(1, 3, "0");
  backend.reserve(3, buffer_bytes(256, 0));
  LocalJob job(3);
  int rows = 0;
  Reporter reporter = reporter_to([](const auto&) {},
                                  [&](const CaseRows&) {
                                    if (++rows == 2) throw EnvironmentError("the disk is full");
                                  });
  const auto ends = run_as_threads(job, [&](Team& world) { run_rank(plan, backend, job, world.rank(), &reporter); });
  CHECK(ends == std::vector<std::string>{"the disk is full", "aborted", "aborted"});
  CHECK(rows == 2);
}
