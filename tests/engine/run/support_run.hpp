#pragma once
// Whole runs on the host backend, with ranks as threads.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/host/memory/shared_memory_backend.hpp"
#include "collectives/registry.hpp"
#include "measure/buffers.hpp"
#include "run/rank_runner.hpp"
#include "support_job.hpp"

namespace busbw {

/// Settings of a run. Few iterations and small sizes by default.
struct RunSetup {
  std::string collective = "all_reduce";
  int ranks = 2;
  std::vector<std::uint64_t> sizes_bytes{1024};
  std::vector<Configuration> configurations{{Dtype::float32, Redop::sum, "sum", -1}};
  std::vector<Placement> placements{Placement::out_of_place, Placement::in_place};
  RunSettings settings = few_iterations();
  Split split{};  // by rank: each rank stands for a process
  CollectiveSettings collective_settings{};
  std::string fault{};

  static RunSettings few_iterations() {
    RunSettings settings;
    settings.iterations = 3;
    return settings;
  }
};

/// A configuration of a collective, with root 0 if the collective has roots.
inline Configuration configuration_of(const std::string& collective, int root, Dtype dtype = Dtype::float32) {
  return {dtype, Redop::sum, "sum", make_collective(collective, {})->has_root() ? root : -1};
}

/// A reporter that calls functions.
inline Reporter reporter_to(std::function<void(const std::vector<RankInfo>&)> on_begin,
                            std::function<void(const CaseRows&)> on_rows) {
  struct FunctionSink final : Sink {
    void begin(const RunInfo& run) override { on_begin(run.ranks); }
    void rows(const CaseRows& rows) override { on_rows(rows); }
    void end(const RunEnd&) override {}
    std::function<void(const std::vector<RankInfo>&)> on_begin;
    std::function<void(const CaseRows&)> on_rows;
  };
  auto sink = std::make_unique<FunctionSink>();
  sink->on_begin = std::move(on_begin);
  sink->on_rows = std::move(on_rows);
  Reporter reporter({}, std::nullopt);
  reporter.add(std::move(sink));
  return reporter;
}

/// Output of a run, and the end of each rank ("" for success).
struct RunSeen {
  std::vector<RankInfo> ranks;
  std::vector<CaseRows> cases;
  std::vector<std::string> ends;
  std::optional<Failure> failure;

  /// The row of a run with a single case.
  const Row& row() const {
    REQUIRE(cases.size() == 1);
    REQUIRE(cases[0].size() == 1);
    return cases[0][0];
  }
};

inline RunSeen run_all_ranks(const RunSetup& setup) {
  const auto collective = make_collective(setup.collective, setup.collective_settings);
  REQUIRE(collective);
  RunPlan plan{*collective,    {setup.configurations, setup.sizes_bytes, setup.settings.run_cycles},
               setup.settings, setup.placements,
               setup.split,    *std::ranges::max_element(setup.sizes_bytes)};
  plan.settings.processes = setup.ranks;
  if (!setup.fault.empty()) plan.fault = parse_fault(setup.fault);
  SharedMemoryBackend backend(1, setup.ranks, "0");
  backend.reserve(setup.ranks, buffer_bytes(plan.max_bytes, setup.settings.unalign_elements));
  LocalJob job(setup.ranks);
  RunSeen seen;
  Reporter reporter = reporter_to([&](const std::vector<RankInfo>& ranks) { seen.ranks = ranks; },
                                  [&](const CaseRows& rows) { seen.cases.push_back(rows); });
  seen.ends = run_as_threads(job, [&](Team& world) { run_rank(plan, backend, job, world.rank(), &reporter); });
  seen.failure = job.failure();
  return seen;
}

/// Runs as above, and checks that all ranks succeed.
inline RunSeen run_well(const RunSetup& setup) {
  RunSeen seen = run_all_ranks(setup);
  REQUIRE(seen.ends == std::vector<std::string>(static_cast<std::size_t>(setup.ranks)));
  return seen;
}

/// Calls `visit` for every placement of every row.
inline std::vector<const Measurement*> measurements_of(const RunSeen& seen) {
  std::vector<const Measurement*> all;
  for (const CaseRows& rows : seen.cases)
    for (const Row& row : rows)
      for (const auto* side : {&row.out_of_place, &row.in_place})
        if (*side) all.push_back(&**side);
  return all;
}

inline void check_all_right(const RunSeen& seen) {
  for (const Measurement* measurement : measurements_of(seen)) {
    CHECK(measurement->check.wrong_elements == 0);
    CHECK(measurement->check.wrong_ranks == 0);
    CHECK(measurement->check.first_wrong.empty());
  }
}

}  // namespace busbw
