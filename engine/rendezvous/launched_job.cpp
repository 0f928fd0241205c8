#include "rendezvous/launched_job.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <utility>

#include "common/os/provenance.hpp"
#include "common/os/ticker.hpp"
#include "common/support/number_list.hpp"
#include "rendezvous/store_team.hpp"

namespace busbw {
namespace {

constexpr int kFirstSayTicks = 3 * kTicksPerS;
constexpr int kSayTicks = 10 * kTicksPerS;
constexpr int kGraceTicks = 5 * kTicksPerS;  // for the others to leave
constexpr int kBeatsATick = 200;             // process 0 takes no more, however many processes there are
constexpr double kNoLimitS = 1e9;
constexpr double kLaterS = 2;

ExitCode exit_of(const std::exception& error) {
  const auto* known = dynamic_cast<const Error*>(&error);
  return known ? known->exit() : ExitCode::environment;
}

/// While the exception is handled for which this process gave the reason `own`; `first` is what stands in the job.
[[noreturn]] void throw_first(const Failure& first, const std::string& own) {
  if (first.message == own) throw;
  throw Error(first.exit, first.message);  // another process was the first: all end with one reason
}

}  // namespace

LaunchedJob::LaunchedJob(const Membership& membership, JoinCallbacks callbacks)
    : membership_(membership),
      callbacks_(std::move(callbacks)),
      meeting_(membership, {callbacks_.on_status, [this] { tick_while_joining(); }}),
      own_ranks_(static_cast<std::size_t>(membership.ranks_per_process)) {
  try {
    if (membership_.process == 0) serve();
    control_ = std::make_unique<TcpChannel>(meeting_.join(true));
    first_host_ = meeting_.first_host();
    reached_at_ = control_->peer();
    is_in_touch_ = true;
    thread_ = std::thread([this] { run_control_thread(); });
    stores_.resize(own_ranks_.size());
    for (auto& store : stores_) store = new_store();
    std::vector<int> everybody(static_cast<std::size_t>(membership_.processes));
    std::iota(everybody.begin(), everybody.end(), 0);
    // Processes issue nothing: the first rank's place is as good as any.
    processes_ = std::make_unique<StoreTeam>(
        *stores_[0], MemberCallbacks{[this] { return aborted(); }, [](std::optional<Phase>) {}, own_ranks_[0].issued},
        std::move(everybody), membership_.process, "the processes");
    if (server_) wait_for_all();
    processes_->barrier();
  } catch (const JobAborted&) {
    const Failure why = *failure();
    leave();
    throw Error(why.exit, why.message);
  } catch (const std::exception& error) {
    abort(exit_of(error), error.what());
    if (server_) {  // the thread that would tell it may not have been started
      server_->abort(*failure());
      record_failure(*server_->attendance().failure());
    }
    const Failure why = *failure();
    leave();
    throw_first(why, error.what());
  }
}

LaunchedJob::~LaunchedJob() { leave(); }

// ---- coming together ------------------------------------------------------------------------------------------------

void LaunchedJob::serve() {
  std::vector<Descriptor> listeners = meeting_.open();
  try {
    server_ = std::make_unique<TcpStoreServer>(
        std::move(listeners), ServerSettings{meeting_.token(), membership_.processes, membership_.ranks_per_process,
                                             std::max(kTicksPerS, ticks_of(membership_.silence_s)), host_name()});
  } catch (...) {
    meeting_.close();  // nobody answers at what was just written down
    throw;
  }
}

/// What it throws ends a connection in the middle of a handshake: the store must have heard why before it sees that.
void LaunchedJob::tick_while_joining() {
  try {
    callbacks_.on_tick();
  } catch (const Error& error) {
    abort(error.exit(), error.what());
    static_cast<void>(failure());
    throw;
  }
  if (aborted()) throw JobAborted();
}

void LaunchedJob::wait_for_all() {
  const int limit = ticks_of(membership_.join_limit_s);
  int next_say = kFirstSayTicks;
  bool doubts = false;
  const auto strangers = [this] {
    const int count = server_->rejected_connections();
    return count == 0 ? std::string()
                      : fmt::format(", and {} connection{} turned away", count, count == 1 ? " was" : "s were");
  };
  for (int tick = 0;; ++tick) {
    const std::vector<int> missing = server_->attendance().missing();
    if (missing.empty()) return;
    callbacks_.on_tick();
    if (aborted()) throw JobAborted();
    // It has this job's token, so it is one of those that are missing, and will not come again.
    if (const auto refusal = server_->attendance().first_refusal()) throw Error(refusal->exit, refusal->message);
    const auto absent = [&] {
      return fmt::format("{} of {} processes {} not come: {}", missing.size(), membership_.processes,
                         missing.size() == 1 ? "has" : "have", number_list_text(missing));
    };
    const auto doubt = [&] {
      std::string all;
      for (const std::string& one : {server_->attendance().other_token(), server_->attendance().other_version()})
        if (!one.empty()) all += "; " + one;
      return all;
    };
    if (tick >= limit)
      throw Error(
          ExitCode::rank_lost,
          fmt::format("{} in {:g} s{}{}; look whether they run and reach process 0 on {}, which listens at {} (a "
                      "firewall?), or allow more time with BUSBW_JOIN_TIMEOUT_S and -T",
                      absent(), membership_.join_limit_s, strangers(), doubt(), host_name(), meeting_.listen_address_text()));
    const bool says_at_once = !doubts && !doubt().empty();
    doubts = doubts || says_at_once;
    if (says_at_once || tick >= next_say) {
      callbacks_.on_status(fmt::format("{}{}; process 0 listens at {}", absent(), doubt(), meeting_.listen_address_text()));
      next_say = tick + kSayTicks;
    }
    sleep_tick();
  }
}

Bytes LaunchedJob::agree(const Bytes& words, const std::function<Bytes(const std::vector<Bytes>&)>& decide) {
  try {
    const std::vector<Bytes> all = processes_->gather(words);
    return processes_->broadcast(server_ ? decide(all) : Bytes());
  } catch (const JobAborted&) {
    const Failure why = *failure();
    throw Error(why.exit, why.message);
  } catch (const std::exception& error) {
    fail_with(error, error.what());
  }
}

void LaunchedJob::fail_with(const std::exception& error, const std::string& told) {
  abort(exit_of(error), told);
  throw_first(*failure(), told);
}

// ---- while it runs --------------------------------------------------------------------------------------------------

std::unique_ptr<TcpStore> LaunchedJob::new_store() {
  const auto aborted = [this] {
    if (agrees_) callbacks_.on_tick();
    return this->aborted();
  };
  return std::make_unique<TcpStore>(
      meeting_.join(false),
      StoreCallbacks{aborted, [this](const Failure& why) { record_failure(why); }, [this](const std::string& how) { on_store_lost(how); }},
      // Process 0 gives up first: it knows who is missing.
      std::min(membership_.step_limit_s + (server_ ? 0 : kLaterS), kNoLimitS));
}

std::unique_ptr<Team> LaunchedJob::team(int rank) {
  const auto own = static_cast<std::size_t>(rank % membership_.ranks_per_process);
  agrees_ = false;
  stores_[own]->limit(kNoLimitS);  // from here on there is the watch over progress
  std::vector<int> everybody(static_cast<std::size_t>(ranks()));
  std::iota(everybody.begin(), everybody.end(), 0);
  const auto on_step = [this, own](std::optional<Phase> phase) {
    if (phase &&
        own_ranks_[own].phase.exchange(static_cast<int>(*phase), std::memory_order_relaxed) != static_cast<int>(*phase))
      stores_[own]->report_phase(static_cast<int>(own), *phase);
    own_ranks_[own].steps.fetch_add(1, std::memory_order_relaxed);
    if (aborted()) throw JobAborted();
  };
  return std::make_unique<StoreTeam>(*stores_[own],
                                     MemberCallbacks{[this] { return aborted(); }, on_step, own_ranks_[own].issued},
                                     std::move(everybody), rank, "the job");
}

void LaunchedJob::record_failure(const Failure& why) noexcept {
  const std::scoped_lock lock(mutex_);
  if (!failure_ || is_proposed_) failure_ = why;
  is_proposed_ = false;
  aborted_.store(true, std::memory_order_release);
  heard_.notify_all();
}

void LaunchedJob::abort(ExitCode exit, const std::string& message) noexcept {
  const std::scoped_lock lock(mutex_);
  if (failure_) return;
  failure_ = Failure{exit, message};
  reports_failure_ = true;
  is_proposed_ = is_in_touch_;
  aborted_.store(true, std::memory_order_release);
}

void LaunchedJob::on_store_lost(const std::string& how) noexcept {
  if (leaves_) return;
  // The store's own word on why it ends may be on its way over another connection.
  for (int tick = 0; tick < kTicksPerS && !aborted(); ++tick) sleep_tick();
  const Rank& slowest = *std::ranges::min_element(
      own_ranks_, {}, [](const Rank& rank) { return rank.steps.load(std::memory_order_relaxed); });
  const std::string_view phase = name(static_cast<Phase>(slowest.phase.load()));
  if (control_is_silent_) {
    record_failure({ExitCode::rank_lost,
          fmt::format("rank 0 (process 0 on {}) was lost in phase {}: {}; look at its own output, and at "
                      "its host",
                      first_host_, phase, how)});
  } else {
    abort(ExitCode::rank_lost,
          fmt::format(
              "{} lost its connection to process 0 on {} in phase {}: {}; another one to it is well, so look for a "
              "firewall between the hosts that closes connections",
              rank_name(membership_.process * membership_.ranks_per_process), first_host_, phase, how));
  }
}

/// Where several processes abort at once, the store's first reason is everybody's: its word is waited for.
std::optional<Failure> LaunchedJob::failure() const {
  std::unique_lock lock(mutex_);
  heard_.wait_for(lock, std::chrono::milliseconds(kTicksPerS * kTickMs), [this] { return !is_proposed_; });
  return failure_;
}

void LaunchedJob::close_control() noexcept {
  const std::scoped_lock lock(mutex_);
  is_in_touch_ = is_proposed_ = false;
  heard_.notify_all();
}

RankProgress LaunchedJob::progress(int rank) const {
  if (!is_mine(rank)) return server_ ? server_->attendance().progress(rank) : RankProgress{};
  const Rank& own = own_ranks_[static_cast<std::size_t>(rank % membership_.ranks_per_process)];
  return {static_cast<Phase>(own.phase.load(std::memory_order_relaxed)), own.steps.load(std::memory_order_relaxed),
          own.issued.operations(), own.issued.bytes()};
}

std::string LaunchedJob::rank_name(int rank) const {
  if (is_mine(rank)) return fmt::format("rank {} on {}", rank, host_name());
  if (!server_) return fmt::format("rank {}", rank);
  return fmt::format("rank {} on {}", rank,
                     server_->attendance().host_of_process(rank / membership_.ranks_per_process));
}

std::string LaunchedJob::with_rank_name(int rank, const std::string& sentence) const {
  return fmt::format("{}: {}", rank_name(rank), sentence);
}

/// The thread's whole life.
void LaunchedJob::run_control_thread() noexcept {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  try {
    exchange_control_frames();
  } catch (const BrokenMessage&) {
    on_store_lost("what it said cannot be understood");
  } catch (const std::exception& error) {
    on_store_lost(fmt::format("it cannot be talked to any more: {}", error.what()));
  }
  close_control();
}

/// Tells the store how far the ranks are, and hears from it when the job is aborted.
void LaunchedJob::exchange_control_frames() {
  const int max_silent_ticks = std::max(kTicksPerS, ticks_of(membership_.silence_s));
  const int ticks_a_beat =
      std::clamp(max_silent_ticks / 8, 1, std::max(kTicksPerS / 2, membership_.processes / kBeatsATick));
  int silent_ticks = 0;
  int since_beat = ticks_a_beat;
  int leaving_ticks = 0;
  bool told = false;
  bool said_goodbye = false;
  while (leaving_ticks < kGraceTicks) {
    if (!told) {
      const std::scoped_lock lock(mutex_);
      if (reports_failure_) {
        control_->send(FrameKind::abort, packed(*failure_));
        told = true;
      }
    }
    if (leaves_ && !std::exchange(said_goodbye, true)) control_->send(FrameKind::leave, {});
    if (!said_goodbye && since_beat++ >= ticks_a_beat) {
      since_beat = 1;
      MessageWriter beat;
      for (const Rank& rank : own_ranks_)
        beat.add(static_cast<std::uint8_t>(rank.phase.load(std::memory_order_relaxed)))
            .add(rank.steps.load(std::memory_order_relaxed))
            .add(rank.issued.operations())
            .add(rank.issued.bytes());
      control_->send(FrameKind::heartbeat, beat.bytes());
    }
    const auto received = control_->receive(kTickMs);
    if (!received) {
      if (control_->ended()) {
        control_is_silent_ = true;
        if (!said_goodbye) on_store_lost("its connection closed before the job had ended");
        return;
      }
      if (!control_->idle()) continue;
      if (said_goodbye) ++leaving_ticks;
      if (++silent_ticks <= max_silent_ticks) continue;
      control_is_silent_ = true;
      if (!said_goodbye)
        on_store_lost(fmt::format("nothing was heard from it for {:g} s; it is stopped, or the network to its host is cut",
                               max_silent_ticks * kTickMs * 1e-3));
      return;
    }
    silent_ticks = 0;
    if (received->kind == FrameKind::failure) {
      MessageReader reader(received->body);
      record_failure(unpack_failure(reader));
    }
    if (received->kind == FrameKind::leave && said_goodbye) return;
  }
}

/// Whether processes that have not come yet should still hear why the job ends, and not look for process 0 in vain.
bool LaunchedJob::others_may_come() const {
  const auto why = failure();
  return why && (why->exit == ExitCode::usage || why->exit == ExitCode::environment);
}

void LaunchedJob::leave() noexcept {
  if (leaves_.exchange(true)) return;
  if (thread_.joinable() && thread_.get_id() != std::this_thread::get_id()) thread_.join();
  if (server_) server_->wait_until_all_left(kGraceTicks, others_may_come());
  if (server_) meeting_.close();
}

}  // namespace busbw
