// Whole runs on a made-up device: what is timed as a recording is checked as one.
#include <doctest/doctest.h>

#include "collectives/registry.hpp"
#include "common/support/error.hpp"
#include "measure/buffers.hpp"
#include "run/rank_runner.hpp"
#include "support_device.hpp"
#include "support_errors.hpp"
#include "support_job.hpp"

using namespace busbw;

namespace {

/// Its communicators all are one made-up device.
class DeviceBackend final : public Backend {
 public:
  explicit DeviceBackend(bool can_record) : can_record_(can_record) {}
  std::string name() const override { return "made-up"; }
  std::string version() const override { return "1"; }
  Device device(int index) const override { return {index, "0000:00:00", "made-up"}; }
  std::size_t available_bytes(int) const override { return 0; }
  std::size_t work_bytes(int) const override { return 0; }
  void reserve(int, std::size_t) override {}
  std::unique_ptr<Communicator> connect(Team&, Team&) override;

  std::vector<std::string> log;  // of the communicator, once it is gone

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

struct Seen {
  std::vector<RankInfo> ranks;
  std::vector<CaseRows> cases;
  std::string end;
};

Seen run(DeviceBackend& backend, int graph_launches) {
  const auto collective = make_collective("all_reduce", {});
  RunPlan plan{*collective, {{{Dtype::float32, Redop::sum, "sum", -1}}, {64}, 1}, {}, {Placement::in_place}, {}, 4096};
  plan.settings.graph_launches = graph_launches;
  plan.settings.iterations = 4;
  LocalJob job(1);
  Seen seen;
  const RunCallbacks callbacks{[&](const std::vector<RankInfo>& ranks) { seen.ranks = ranks; },
                               [&](const CaseRows& rows) { seen.cases.push_back(rows); }};
  seen.end = run_as_threads(job, [&](Team& world) { run_rank(plan, backend, world, callbacks); }).front();
  return seen;
}

}  // namespace

TEST_CASE("run_rank: -G records what is timed, with stamps and without, and what is checked") {
  DeviceBackend backend(true);
  const Seen seen = run(backend, 3);
  CHECK(seen.end.empty());
  CHECK(std::ranges::count(backend.log, "begin") == 3);
  REQUIRE(seen.cases.size() == 1);
  const Measurement& measurement = *seen.cases[0][0].in_place;
  CHECK(measurement.iteration_s.size() == 4 * 3);
  CHECK(measurement.device_time_s == doctest::Approx(10e-6));
  CHECK(measurement.launch_time_s);
  CHECK(measurement.check.state == CheckResult::State::checked);
}

TEST_CASE("run_rank: without -G nothing is recorded") {
  DeviceBackend backend(true);
  CHECK(run(backend, 0).end.empty());
  CHECK(std::ranges::count(backend.log, "begin") == 0);
}

TEST_CASE("run_rank: -G where operations cannot be recorded is refused") {
  DeviceBackend backend(false);
  check_names(run(backend, 3).end, {"-G 3", "made-up", "drop it"});
  CHECK(run(backend, 0).end.empty());
}

TEST_CASE("run_rank: what a rank's device may reach is told before the first row") {
  DeviceBackend backend(true);
  const Seen seen = run(backend, 0);
  REQUIRE(seen.ranks.size() == 1);
  CHECK(seen.ranks[0].max_clock_hz == 2e9);
}
