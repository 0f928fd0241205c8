// Makes and times the calls of one case on one rank, and checks the all-reduces. A case runs in the team of its ranks.
// Every rank of the team takes part in every barrier, also a rank that does not make the call after it.
#include "comm_ops/comm_ops_runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "measure/clock.hpp"

namespace busbw {
namespace {

/// Meaning of an element of a result: a member's number in the communicator plus 1, or 0 for a rank that is no member.
std::string member_text(std::int32_t value) {
  return value == 0 ? "no member" : fmt::format("rank {} of the communicator", value - 1);
}

/// One case on one rank.
class CaseRun {
 public:
  CaseRun(const CommOpsCase& comm_case, const CommOpsSettings& settings, const RunSettings& run, Backend& backend,
          CommunicatorLifecycle& lifecycle, Team& world, Team& team, const CommOpsHooks& hooks)
      : case_(comm_case),
        settings_(settings),
        run_(run),
        backend_(backend),
        lifecycle_(lifecycle),
        world_(world),
        team_(team),
        hooks_(hooks),
        creation_{.kind = comm_case.test,
                  .team = team,
                  .kept_ranks = comm_case.kept_ranks,
                  .roots = root_count(settings.root_every, team.size()),
                  .aborts_parent = settings.aborts} {}

  /// Returns the times of the calls that this rank makes, those of the parent communicator last.
  std::vector<CallTimes> measure() {
    world_.enter(Phase::initialisation);
    connect_parent();
    for (int iteration = -run_.warmup_iterations; iteration < run_.iterations; ++iteration) {
      is_timed_ = iteration >= 0;
      world_.enter(is_timed_ ? Phase::timing : Phase::warmup);
      run_iteration();
    }
    end_parent();
    team_.barrier();
    std::vector<CallTimes> calls;
    for (auto& [call, times] : times_) calls.push_back(std::move(times));
    for (auto& [call, times] : parent_times_) calls.push_back(std::move(times));
    return calls;
  }

 private:
  bool is_supported(LifecycleCall call) const { return backend_.missing_lifecycle_call(case_.test, call).empty(); }

  static LifecycleCall all_reduce_call(int work) {
    return work == 0 ? LifecycleCall::first_all_reduce : LifecycleCall::next_all_reduce;
  }

  /// Makes the parent, which is the communicator to split, shrink or grow, and uses it before a grow. As in nccl-tests,
  /// these calls are timed only without a warm-up.
  void connect_parent() {
    if (case_.test == CreationKind::init) return;
    const bool grows = case_.test == CreationKind::grow;
    const bool is_member = !grows || team_.rank() < case_.kept_ranks;
    parent_team_ = team_.split(is_member ? 0 : 1);
    if (!is_member) return;
    const Creation init{.kind = CreationKind::init,
                        .team = *parent_team_,
                        .roots = root_count(settings_.root_every, parent_team_->size())};
    lifecycle_.rendezvous(init, nullptr);
    is_timed_ = run_.warmup_iterations == 0;
    time_parent_call(LifecycleCall::create, [&] { parent_ = lifecycle_.create(init, nullptr); });
    if (!grows) return;
    for (int work = 0; work < settings_.work_iterations; ++work) {
      lifecycle_.set_input(std::vector<std::int32_t>(all_reduce_elements(world_.size())));
      time_parent_call(all_reduce_call(work), [&] { parent_->all_reduce(); }, [&] { parent_->wait(); });
    }
  }

  /// Ends the parent like its children. As in nccl-tests, this is always timed: the last iteration has set `is_timed_`.
  void end_parent() {
    if (!parent_) return;
    if (settings_.aborts) {
      if (is_supported(LifecycleCall::abort)) time_parent_call(LifecycleCall::abort, [&] { parent_->abort(); });
    } else {
      if (is_supported(LifecycleCall::finalize))
        time_parent_call(LifecycleCall::finalize, [&] { parent_->finalize(); });
      time_parent_call(LifecycleCall::destroy, [&] { parent_->destroy(); });
    }
    parent_.reset();
  }

  /// Makes a call on the parent's ranks, and stores its time if the phase is timed.
  void time_parent_call(LifecycleCall call, const std::function<void()>& make,
                        const std::function<void()>& wait = nullptr) {
    parent_team_->barrier();
    const CallSpan span = make_call(make, wait);
    if (!is_timed_) return;
    CallTimes& times = parent_times_[call];
    times.call = call;
    times.is_of_parent = true;
    store_span(span, times);
  }

  /// Instants of a call, by the monotonic clock.
  struct CallSpan {
    double start_s = 0;
    std::optional<double> issued_s = {};  // of an all_reduce: when the call has returned
    double end_s = 0;
  };

  static CallSpan make_call(const std::function<void()>& make, const std::function<void()>& wait) {
    CallSpan span{.start_s = monotonic_s()};
    make();
    if (wait) {
      span.issued_s = monotonic_s();
      wait();
    }
    span.end_s = monotonic_s();
    return span;
  }

  static void store_span(const CallSpan& span, CallTimes& times) {
    times.time_s.push_back(span.end_s - span.start_s);
    if (span.issued_s) times.issue_s.push_back(*span.issued_s - span.start_s);
  }

  /// Aligns the ranks of the team, and then makes and times the call if this rank takes part.
  void time_call(LifecycleCall call, bool takes_part, const std::function<void()>& make,
                 const std::function<void()>& wait = nullptr) {
    team_.barrier();
    if (!takes_part) return;
    const double aligned_s = monotonic_s();
    hooks_.before_call();
    const CallSpan span = make_call(make, wait);
    if (!is_timed_) return;
    CallTimes& times = times_[call];
    times.call = call;
    times.delay_s.push_back(span.start_s - aligned_s);
    store_span(span, times);
  }

  void run_iteration() {
    const bool is_member = creation_.includes(team_.rank());
    std::unique_ptr<LifecycleCommunicator> communicator;
    if (is_supported(LifecycleCall::rendezvous))
      time_call(LifecycleCall::rendezvous, true, [&] { lifecycle_.rendezvous(creation_, parent_.get()); });
    time_call(LifecycleCall::create, is_member, [&] { communicator = lifecycle_.create(creation_, parent_.get()); });
    for (int work = 0; work < settings_.work_iterations; ++work)
      check_all_reduce(all_reduce_call(work), communicator.get());
    if (settings_.aborts) {
      if (is_supported(LifecycleCall::abort))
        time_call(LifecycleCall::abort, is_member, [&] { communicator->abort(); });
      return;
    }
    if (is_supported(LifecycleCall::finalize))
      time_call(LifecycleCall::finalize, is_member, [&] { communicator->finalize(); });
    time_call(LifecycleCall::destroy, is_member, [&] { communicator->destroy(); });
  }

  /// Times an all_reduce. Each rank contributes its number in the communicator, plus 1, at the index of its number in
  /// the team. So the result shows the members and their order. `communicator` is null for a rank that is no member.
  void check_all_reduce(LifecycleCall call, LifecycleCommunicator* communicator) {
    const std::size_t count = all_reduce_elements(world_.size());
    if (communicator) {
      std::vector<std::int32_t> input(count);
      input[static_cast<std::size_t>(team_.rank())] = communicator->rank() + 1;
      lifecycle_.set_input(input);
    }
    time_call(call, communicator != nullptr, [&] { communicator->all_reduce(); }, [&] { communicator->wait(); });
    if (!communicator || !is_timed_) return;
    std::vector<std::int32_t> result = lifecycle_.result();
    hooks_.change_result(result);
    RankCheckResult& check_result = times_[call].check_result;
    const auto [first, end] = creation_.members_of(team_.rank());
    for (std::size_t i = 0; i < count; ++i) {
      const int number = static_cast<int>(i);
      const bool is_member = first <= number && number < end;
      const std::int32_t expected = is_member ? number - first + 1 : 0;
      if (result[i] == expected) continue;
      ++check_result.wrong_elements;
      if (check_result.first_wrong.size() == Mismatches::kKept) continue;
      check_result.first_wrong.push_back(
          {team_.rank(), "members of the communicator", number, member_text(expected), member_text(result[i])});
    }
  }

  const CommOpsCase& case_;
  const CommOpsSettings& settings_;
  const RunSettings& run_;
  Backend& backend_;
  CommunicatorLifecycle& lifecycle_;
  Team& world_;
  Team& team_;
  const CommOpsHooks& hooks_;
  const Creation creation_;
  std::unique_ptr<Team> parent_team_;
  std::unique_ptr<LifecycleCommunicator> parent_;
  std::map<LifecycleCall, CallTimes> times_;
  std::map<LifecycleCall, CallTimes> parent_times_;
  bool is_timed_ = false;
};

}  // namespace

std::size_t all_reduce_elements(int ranks) {
  constexpr std::size_t kNcclTestsElements = 1024;
  return std::max(kNcclTestsElements, static_cast<std::size_t>(ranks));
}

void run_comm_ops(const CommOpsSettings& settings, const RunSettings& run, Backend& backend, Team& world,
                  const CommOpsHooks& hooks) {
  const auto lifecycle = backend.make_lifecycle(world);
  for (const int ranks : rank_counts(settings)) {
    const bool takes_part = world.rank() < ranks;
    const auto team = world.split(takes_part ? 0 : 1);
    for (const CreationKind test : settings.tests) {
      // Process 0 decides for all, because its library is the one that the header names.
      const bool is_missing = !backend.missing_lifecycle_call(test, LifecycleCall::create).empty();
      if (broadcast_value(world, is_missing) || !can_run(test, settings.resize, ranks)) continue;
      const CommOpsCase comm_case{test, ranks, kept_ranks(settings.resize, ranks)};
      std::vector<CallTimes> own;
      if (takes_part) own = CaseRun(comm_case, settings, run, backend, *lifecycle, world, *team, hooks).measure();
      const auto calls = gather_values(world, own);
      if (world.rank() == 0) hooks.report(comm_case, calls);
    }
  }
  world.enter(Phase::report);
  world.barrier();
}

}  // namespace busbw
