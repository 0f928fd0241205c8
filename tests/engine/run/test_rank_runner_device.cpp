// Complete runs on a fake device: operations that are timed as a graph are checked as a graph.
#include <doctest/doctest.h>

#include "backends/nccl/nccl_backend.hpp"
#include "collectives/registry.hpp"
#include "common/support/error.hpp"
#include "measure/buffers.hpp"
#include "run/rank_runner.hpp"
#include "support_device.hpp"
#include "support_errors.hpp"
#include "support_job.hpp"
#include "support_run.hpp"

using namespace busbw;

namespace {

/// A backend in which all communicators use one fake device.
class DeviceBackend final : public Backend {
 public:
  explicit DeviceBackend(bool can_record) : can_record_(can_record) {}
  const BackendTraits& traits() const override { return kNcclTraits; }
  std::string version() const override { return "1"; }
  Device device(int index) const override { return {index, "0000:00:00", "made-up"}; }
  std::size_t available_bytes(int) const override { return 0; }
  std::size_t work_bytes(int) const override { return 0; }
  void reserve(int, std::size_t) override {}
  std::unique_ptr<Communicator> connect(Team&, Team&) override;

  std::vector<std::string> log;  // log of the communicator, filled by its destructor

 private:
  class Logged;
  bool can_record_;
};

class DeviceBackend::Logged final : public DeviceCommunicator {
 public:
  Logged(DeviceBackend& backend, std::size_t bytes)
      : DeviceCommunicator({.operation_s = 10e-6, .condition = DeviceClockState{{}, 2e9, {}}}, bytes),
        backend_(backend) {}
  ~Logged() override { backend_.log = log; }
  bool can_capture() const override { return backend_.can_record_; }

 private:
  DeviceBackend& backend_;
};

std::unique_ptr<Communicator> DeviceBackend::connect(Team&, Team&) {
  return std::make_unique<Logged>(*this, buffer_bytes(4096, 0));
}

struct RunResult {
  std::vector<RankInfo> ranks;
  std::vector<CaseRows> cases;
  std::string end;
};

RunResult run(DeviceBackend& backend, int graph_launches, int aggregated_iterations = 1) {
  const auto collective = make_collective("all_reduce", {});
  RunPlan plan{*collective, {{{Dtype::float32, Redop::sum, "sum", -1}}, {64}, 1}, {}, {Placement::in_place}, {}, 4096};
  plan.settings.graph_launches = graph_launches;
  plan.settings.iterations = 4;
  plan.settings.aggregated_iterations = aggregated_iterations;
  plan.settings.warmup_iterations = 3;
  LocalJob job(1);
  RunResult result;
  Reporter reporter = reporter_to([&](const auto& ranks) { result.ranks = ranks; },
                                  [&](const CaseRows& rows) { result.cases.push_back(rows); });
  result.end = run_as_threads(job, [&](Team& world) { run_rank(plan, backend, job, world.rank(), &reporter); }).front();
  return result;
}

}  // namespace

TEST_CASE("run_rank: -G captures timed operations, with timestamps and without, and checked ones") {
  DeviceBackend backend(true);
  const RunResult result = run(backend, 3);
  CHECK(result.end.empty());
  CHECK(std::ranges::count(backend.log, "begin") == 3);
  REQUIRE(result.cases.size() == 1);
  const Measurement& measurement = *result.cases[0][0].in_place;
  CHECK(measurement.operation_s.size() == 4 * 3);
  CHECK(measurement.device_time_s == doctest::Approx(10e-6));
  CHECK(measurement.launch_time_s);
  CHECK(measurement.check.state == CheckResult::State::checked);
}

TEST_CASE("run_rank: without -G nothing is captured") {
  DeviceBackend backend(true);
  CHECK(run(backend, 0).end.empty());
  CHECK(std::ranges::count(backend.log, "begin") == 0);
}

TEST_CASE("run_rank: only the warm-up is observed, before anything is timed") {
  DeviceBackend backend(true);
  const RunResult result = run(backend, 0);
  CHECK(result.cases.at(0)[0].in_place->algorithms == std::vector<AlgorithmChoice>{{"ring", "simple", 2}});
  const std::vector<std::string>& log = backend.log;
  REQUIRE(std::ranges::count(log, "observe") == 1);
  const auto begin = std::ranges::find(log, "observe");
  const auto end = std::find(begin, log.end(), "report");
  CHECK(std::count(begin, end, "run") == 3);
  CHECK(*(end - 1) == "wait");
  CHECK(std::count(log.begin(), begin, "run") == 0);
  CHECK(std::count(end, log.end(), "run") > 4);
}

TEST_CASE("run_rank: algorithms of graphs and of groups of operations stay unknown") {
  for (const auto& [graph_launches, aggregated] : {std::pair(3, 1), std::pair(0, 2)}) {
    DeviceBackend backend(true);
    const RunResult result = run(backend, graph_launches, aggregated);
    CHECK(result.cases.at(0)[0].in_place->algorithms.empty());
    CHECK(std::ranges::count(backend.log, "observe") == 0);
  }
}

TEST_CASE("run_rank: -G is an error if operations cannot be captured") {
  DeviceBackend backend(false);
  check_names(run(backend, 3).end, {"-G 3", "the nccl backend", "drop it"});
  CHECK(run(backend, 0).end.empty());
}

TEST_CASE("run_rank: the maximum clock of a device is known before the first row") {
  DeviceBackend backend(true);
  const RunResult result = run(backend, 0);
  REQUIRE(result.ranks.size() == 1);
  CHECK(result.ranks[0].max_clock_hz == 2e9);
}
