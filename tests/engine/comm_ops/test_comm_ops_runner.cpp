// Cases on threads over a backend that makes communicators of nothing but numbers, some of them wrong.
#include "comm_ops/comm_ops_runner.hpp"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <set>

#include "backends/host/host_traits.hpp"
#include "comm_ops/call_rows.hpp"
#include "output_values.hpp"
#include "support_ranks.hpp"

using namespace busbw;

namespace {

/// A wrong communicator: two ranks swapped, or a member that is missing.
enum class Mistake { none, swapped, missing };

/// Adds the input of all ranks of a team.
class MadeUpLifecycle final : public CommunicatorLifecycle {
 public:
  explicit MadeUpLifecycle(Mistake mistake) : mistake_(mistake) {}
  void rendezvous(const Creation& creation, LifecycleCommunicator*) override {
    team_ = creation.team.split(creation.members_of(creation.team.rank()).first);
  }
  std::unique_ptr<LifecycleCommunicator> create(const Creation& creation, LifecycleCommunicator*) override {
    // The parent of a test has kind init; only the new communicators are wrong.
    const Mistake mistake = creation.kind == CreationKind::split ? mistake_ : Mistake::none;
    return std::make_unique<MadeUpCommunicator>(*this, std::move(team_), mistake);
  }
  void set_input(std::span<const std::int32_t> elements) override { input_.assign(elements.begin(), elements.end()); }
  std::vector<std::int32_t> result() override { return result_; }

 private:
  struct MadeUpCommunicator final : LifecycleCommunicator {
    MadeUpCommunicator(MadeUpLifecycle& made_by, std::unique_ptr<Team> members, Mistake made)
        : lifecycle(made_by), team(std::move(members)), mistake(made) {}
    int rank() const override {
      return mistake == Mistake::swapped && team->size() > 1 && team->rank() < 2 ? 1 - team->rank() : team->rank();
    }
    void all_reduce() override {
      const auto inputs = all_gather_values(*team, lifecycle.input_);
      lifecycle.result_.assign(lifecycle.input_.size(), 0);
      for (std::size_t i = mistake == Mistake::missing ? 1 : 0; i < inputs.size(); ++i)
        for (std::size_t j = 0; j < inputs[i].size(); ++j) lifecycle.result_[j] += inputs[i][j];
    }
    void wait() override {}
    void finalize() override {}
    void destroy() override {}
    void abort() override {}

    MadeUpLifecycle& lifecycle;
    std::unique_ptr<Team> team;
    Mistake mistake;
  };

  Mistake mistake_;
  std::unique_ptr<Team> team_;
  std::vector<std::int32_t> input_, result_;
};

class MadeUpBackend final : public Backend {
 public:
  MadeUpBackend(Mistake mistake, CreationKind missing) : mistake_(mistake), missing_(missing) {}
  const BackendTraits& traits() const override { return kHostTraits; }
  std::string version() const override { return "0"; }
  Device device(int index) const override { return {index, "cpu", "none"}; }
  std::size_t available_bytes(int) const override { return 0; }
  std::size_t work_bytes(int) const override { return 0; }
  void reserve(int, std::size_t) override {}
  std::unique_ptr<Communicator> connect(Team&, Team&) override { return nullptr; }
  std::unique_ptr<CommunicatorLifecycle> make_lifecycle(Team&) override {
    return std::make_unique<MadeUpLifecycle>(mistake_);
  }
  std::string lifecycle_function(CreationKind kind, LifecycleCall call) const override {
    if (call == LifecycleCall::rendezvous) return "";
    if (call == LifecycleCall::create) return fmt::format("ncclComm_{}", name(kind));
    if (call == LifecycleCall::first_all_reduce || call == LifecycleCall::next_all_reduce) return "ncclAllReduce";
    return fmt::format("ncclComm_{}", name(call));
  }
  std::string missing_lifecycle_call(CreationKind kind, LifecycleCall call) const override {
    return kind == missing_ && call == LifecycleCall::create ? "missing" : "";
  }

 private:
  Mistake mistake_;
  CreationKind missing_;
};

CommOpsSettings settings_for(int ranks, std::vector<CreationKind> tests) {
  CommOpsSettings settings;
  settings.tests = std::move(tests);
  settings.begin_ranks = ranks;
  settings.sweep = {RankStep::Kind::fixed, 0};
  return settings;
}

/// Runs on threads and returns the rows of all cases.
CaseRows measure(const CommOpsSettings& settings, int ranks, Mistake mistake = Mistake::none,
                 CreationKind missing = CreationKind::init, int warmup_iterations = 1) {
  MadeUpBackend backend(mistake, missing);
  RunSettings run;
  run.iterations = 3;
  run.warmup_iterations = warmup_iterations;
  CaseRows rows;
  const CommOpsHooks hooks{[] {}, [](std::span<std::int32_t>) {},
                           [&](const CommOpsCase& comm_case, const auto& calls) {
                             for (Row& row : make_call_rows(comm_case, calls, backend, test::made_up_ranks(1, ranks)))
                               rows.push_back(std::move(row));
                           }};
  CHECK(run_threads(ranks, [&](Team& world) {
          run_comm_ops(settings, run, backend, world, hooks);
          return std::string();
        }) == "");
  return rows;
}

const Row& row_of(const CaseRows& rows, const std::string& name) {
  for (const Row& row : rows)
    if (row.collective == name) return row;
  FAIL("no row " << name);
  return rows.front();
}

}  // namespace

TEST_CASE("comm_ops: each call has the ranks that make it, and a sample of each iteration") {
  const CaseRows rows = measure(settings_for(5, {CreationKind::split, CreationKind::shrink, CreationKind::grow}), 5);
  CHECK(rows.size() == 3 * 6);
  for (const Row& row : rows) {
    CAPTURE(row.collective);
    const bool keeps_part = row.lifecycle->test == "shrink" && row.lifecycle->call != "rendezvous";
    CHECK(row.group_ranks == (keeps_part ? 3 : 5));
    CHECK(row.lifecycle->test_ranks == 5);
    CHECK(row.out_of_place->rank_samples_s.size() == static_cast<std::size_t>(row.group_ranks));
    for (const auto& samples_s : row.out_of_place->rank_samples_s) CHECK(samples_s.size() == 3);
    const bool moves_data = row.lifecycle->call.ends_with("all_reduce");
    CHECK((row.out_of_place->check.state == CheckResult::State::checked) == moves_data);
    CHECK(row.size_bytes == (moves_data ? 4096 : 0));
    CHECK(row.out_of_place->check.wrong_elements == 0);
    CHECK_FALSE(row.out_of_place->busbw_bytes_per_s);
  }
  // next_all_reduce is one call of each communicator with -W 2.
  CHECK(row_of(rows, "split/next_all_reduce").out_of_place->rank_samples_s.front().size() == 3);
}

namespace {

/// Number of calls of each timer, with the number of ranks that make a call.
using TimerCounts = std::map<std::string, std::pair<std::size_t, std::set<std::size_t>>>;

TimerCounts timer_counts(const CaseRows& rows) {
  TimerCounts counts;
  for (const Row& row : rows)
    for (const TimerCalls& timer : row.lifecycle->timers) {
      auto& [calls, ranks] = counts[timer.timer];
      calls += timer.calls_s.size();
      for (const auto& call_s : timer.calls_s) ranks.insert(call_s.size());
    }
  return counts;
}

}  // namespace

// Numbers of src/comm_ops.cu of nccl-tests: 3 iterations with 2 all-reduces each. The parent is ended once. Without a
// warm-up its creation counts too, and its all-reduces before a grow.
TEST_CASE("comm_ops: the timers of nccl-tests count its calls, those of the parent included") {
  const auto of = [](CreationKind test, int warmup_iterations) {
    return timer_counts(measure(settings_for(5, {test}), 5, Mistake::none, CreationKind::init, warmup_iterations));
  };
  const TimerCounts split{{"split rendezvous", {3, {5}}},       {"NCCL ncclComm_split", {3, {5}}},
                          {"NCCL ncclAllReduce", {6, {5}}},     {"(CUDA) Stream Synchronize", {6, {5}}},
                          {"NCCL ncclComm_finalize", {4, {5}}}, {"NCCL ncclComm_destroy", {4, {5}}}};
  CHECK(of(CreationKind::split, 1) == split);
  const TimerCounts shrink{{"shrink rendezvous", {3, {5}}},         {"NCCL ncclComm_shrink", {3, {3}}},
                           {"NCCL ncclAllReduce", {6, {3}}},        {"(CUDA) Stream Synchronize", {6, {3}}},
                           {"NCCL ncclComm_finalize", {4, {3, 5}}}, {"NCCL ncclComm_destroy", {4, {3, 5}}}};
  CHECK(of(CreationKind::shrink, 1) == shrink);
  const TimerCounts grow{{"grow rendezvous", {3, {5}}},
                         {"NCCL ncclComm_init", {1, {3}}},
                         {"NCCL ncclComm_grow", {3, {5}}},
                         {"NCCL ncclAllReduce", {8, {3, 5}}},
                         {"(CUDA) Stream Synchronize", {8, {3, 5}}},
                         {"NCCL ncclComm_finalize", {4, {3, 5}}},
                         {"NCCL ncclComm_destroy", {4, {3, 5}}}};
  CHECK(of(CreationKind::grow, 0) == grow);
  CHECK(of(CreationKind::grow, 1).count("NCCL ncclComm_init") == 0);
}

TEST_CASE(
    "comm_ops: mean and median are over ranks and iterations; the time of an all-reduce has a part without wait") {
  MadeUpBackend backend(Mistake::none, CreationKind::init);
  std::vector<std::vector<CallTimes>> calls(2);
  calls[0] = {{.call = LifecycleCall::first_all_reduce,
               .delay_s = {0, 0},
               .time_s = {1, 2},
               .issue_s = {0.25, 0.75},
               .check_result = {}}};
  calls[1] = {{.call = LifecycleCall::first_all_reduce,
               .delay_s = {0, 0},
               .time_s = {3, 4},
               .issue_s = {1.5, 1.5},
               .check_result = {}}};
  const Row row = make_call_rows({CreationKind::init, 2, 1}, calls, backend, test::made_up_ranks(1, 2)).front();
  CHECK(row.out_of_place->time_s == 2.5);
  CHECK(row.lifecycle->median_s == 2.5);
  CHECK(row.lifecycle->rank_medians_s == std::vector{1.5, 3.5});
  CHECK(row.out_of_place->statistics.median_s == 3.5);  // until the last rank has ended
  CHECK(row.out_of_place->rank_launch_times_s == std::vector{0.5, 1.5});
  CHECK(row.out_of_place->launch_time_s == 1);
  REQUIRE(row.lifecycle->timers.size() == 2);
  CHECK(row.lifecycle->timers[0].calls_s == std::vector<std::vector<double>>{{0.25, 1.5}, {0.75, 1.5}});
  CHECK(row.lifecycle->timers[1].is_optional);
  CHECK(row.lifecycle->timers[1].calls_s == std::vector<std::vector<double>>{{0.75, 1.5}, {1.25, 2.5}});
}

TEST_CASE("comm_ops: a parent is created before its children and ends after them, also in the timers") {
  MadeUpBackend backend(Mistake::none, CreationKind::init);
  std::vector<std::vector<CallTimes>> calls(1);
  for (const LifecycleCall call : {LifecycleCall::first_all_reduce, LifecycleCall::finalize, LifecycleCall::destroy}) {
    const std::vector<double> issue_s(call == LifecycleCall::first_all_reduce ? 1 : 0);
    for (const bool is_of_parent : {false, true})
      calls[0].push_back({.call = call,
                          .is_of_parent = is_of_parent,
                          .delay_s = {0},
                          .time_s = {is_of_parent ? 2.0 : 1.0},
                          .issue_s = issue_s});
  }
  const auto rows = make_call_rows({CreationKind::grow, 1, 1}, calls, backend, test::made_up_ranks(1, 1));
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].lifecycle->timers.back().calls_s == std::vector<std::vector<double>>{{2}, {1}});
  CHECK(rows[1].lifecycle->timers.back().calls_s == std::vector<std::vector<double>>{{1}, {2}});
  CHECK(rows[2].lifecycle->timers.back().calls_s == std::vector<std::vector<double>>{{1}, {2}});
}

TEST_CASE("comm_ops: the wrong order and the wrong members of a communicator are found") {
  const auto settings = settings_for(4, {CreationKind::split});
  const auto swapped = row_of(measure(settings, 4, Mistake::swapped), "split/first_all_reduce").out_of_place->check;
  CHECK(swapped.wrong_ranks == 4);
  CHECK(swapped.first_wrong.front().expected == "rank 0 of the communicator");
  CHECK(swapped.first_wrong.front().got == "rank 1 of the communicator");
  const auto missing = row_of(measure(settings, 4, Mistake::missing), "split/first_all_reduce").out_of_place->check;
  CHECK(missing.wrong_elements == 4 * 3);  // one element of each rank in each iteration
  CHECK(missing.first_wrong.front().got == "no member");
}

TEST_CASE("comm_ops: a test that the library lacks is left out, and the others run") {
  const CaseRows rows =
      measure(settings_for(4, {CreationKind::shrink, CreationKind::split}), 4, Mistake::none, CreationKind::shrink);
  CHECK(rows.size() == 6);
  for (const Row& row : rows) CHECK(row.lifecycle->test == "split");
}

TEST_CASE("comm_ops: a rank that is slower than its equals in every iteration is named, and no other") {
  MadeUpBackend backend(Mistake::none, CreationKind::init);
  const auto late_ranks = [&](CreationKind test, std::vector<std::vector<double>> times_s,
                              std::vector<std::vector<double>> delays_s) {
    std::vector<std::vector<CallTimes>> calls;
    for (std::size_t rank = 0; rank < times_s.size(); ++rank)
      calls.push_back(
          {{.call = LifecycleCall::create, .delay_s = delays_s[rank], .time_s = times_s[rank], .check_result = {}}});
    const int ranks = static_cast<int>(calls.size());
    return make_call_rows({test, ranks, 2}, calls, backend, test::made_up_ranks(1, ranks))
        .front()
        .out_of_place->late_ranks;
  };
  const std::vector<std::vector<double>> punctual(4, {0, 0});
  const std::vector<std::vector<double>> fast{{0.1, 0.11}, {0.1, 0.1}, {0.12, 0.1}, {0.1, 0.1}};
  CHECK(late_ranks(CreationKind::init, fast, punctual).empty());

  auto slow = fast;
  slow[2] = {0.3, 0.4};
  const auto found = late_ranks(CreationKind::init, slow, punctual);
  REQUIRE(found.size() == 1);
  CHECK(found.front().kind == LateRank::Kind::slow_call);
  CHECK(found.front().rank == 2);
  CHECK(found.front().late_s == doctest::Approx(0.25).epsilon(0.05));

  slow[2] = {0.1, 0.9};  // once is chance
  CHECK(late_ranks(CreationKind::init, slow, punctual).empty());
  slow[2] = slow[3] = {0.4, 0.4};  // new ranks of a grow do other work
  CHECK(late_ranks(CreationKind::grow, slow, punctual).empty());

  auto late = punctual;
  late[3] = {0.05, 0.06};
  const auto last = late_ranks(CreationKind::init, fast, late);
  REQUIRE(last.size() == 1);
  CHECK(last.front().kind == LateRank::Kind::late_start);
  CHECK(last.front().rank == 3);
  CHECK(last.front().late_s == doctest::Approx(0.05));
  late[3] = {0, 0.06};
  CHECK(late_ranks(CreationKind::init, fast, late).empty());
}
