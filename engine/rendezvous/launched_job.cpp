// Joins this process to the job, then reports its progress and its failure to process 0 in a control thread. Process 0
// also runs the store and decides when all processes have joined.
#include "rendezvous/launched_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "common/os/provenance.hpp"
#include "common/os/signal_mask.hpp"
#include "common/os/ticker.hpp"
#include "common/support/number_list.hpp"

namespace busbw {
namespace {

constexpr int kLeaveTicks = 5 * kTicksPerS;  // time for the other processes to leave
constexpr int kStoppedHeartbeats = 4;  // number of missing heartbeats after which a process counts as stopped
constexpr int kMinHeartbeatsPerSilence = 8;  // heartbeats that process 0 must miss before a process counts as lost
constexpr int kMaxHeartbeatsPerTick = 200;  // that process 0 receives from all processes together
constexpr double kNoLimitS = std::numeric_limits<double>::infinity();
// Process 0 times out first, because it knows which processes are missing. The others wait this much longer.
constexpr double kOtherProcessesExtraS = 2;

ExitCode exit_code_of(const std::exception& error) {
  const auto* error_with_code = dynamic_cast<const Error*>(&error);
  return error_with_code ? error_with_code->exit() : ExitCode::environment;
}

/// Call it from a catch block. Throws the job's first failure, so that all processes end with the same failure.
/// `own_message`: message of the current exception.
[[noreturn]] void throw_first_failure(const Failure& first_failure, const std::string& own_message) {
  const bool is_current_exception = first_failure.message == own_message;
  if (is_current_exception) throw;
  throw Error(first_failure.exit, first_failure.message);
}

}  // namespace

LaunchedJob::LaunchedJob(const Membership& membership, JoinCallbacks callbacks)
    : membership_(membership),
      callbacks_(std::move(callbacks)),
      rendezvous_(membership, {callbacks_.on_status, [this] { tick_while_joining(); }}),
      local_ranks_(static_cast<std::size_t>(membership.ranks_per_process)) {
  for (std::size_t i = 0; i < local_ranks_.size(); ++i) local_ranks_[i].index = static_cast<int>(i);
  try {
    if (membership_.process == 0) start_server();
    start_control_thread();
    stores_.resize(local_ranks_.size());
    for (auto& store : stores_) store = connect_store();
    make_process_team();
    if (server_) wait_until_all_joined();
    process_team_->broadcast({});  // an empty message, for which the other processes wait until all have joined
  } catch (const JobAborted&) {
    const Failure first_failure = *failure();
    leave();
    throw Error(first_failure.exit, first_failure.message);
  } catch (const std::exception& error) {
    abort(exit_code_of(error), error.what());
    if (server_) {
      // The control thread usually reports the failure, but may not be running yet. The server keeps the first failure,
      // which may be that of another process.
      server_->abort(*failure());
      record_failure(*server_->tracker().failure());
    }
    const Failure first_failure = *failure();
    leave();
    throw_first_failure(first_failure, error.what());
  }
}

LaunchedJob::~LaunchedJob() { leave(); }

// ---- joining --------------------------------------------------------------------------------------------------------

void LaunchedJob::start_server() {
  std::vector<Descriptor> listeners = rendezvous_.start_listening();
  try {
    server_ = std::make_unique<TcpStoreServer>(std::move(listeners),
                                               ServerSettings{.token = rendezvous_.token(),
                                                              .processes = membership_.processes,
                                                              .ranks_per_process = membership_.ranks_per_process,
                                                              .silence_ticks = max_silent_ticks(),
                                                              .host = host_name()});
    server_->tolerate_losses(membership_.tolerates_losses);
  } catch (...) {
    rendezvous_.withdraw_address();  // nothing listens there
    throw;
  }
}

/// Connects to the store for heartbeats and failures, and starts the thread that exchanges them.
void LaunchedJob::start_control_thread() {
  control_ = std::make_unique<TcpChannel>(rendezvous_.join(/*is_control=*/true));
  process_0_host_ = rendezvous_.process_0_host();
  store_address_text_ = control_->peer();
  is_control_open_ = true;
  control_thread_ = std::thread([this] { run_control_thread(); });
}

void LaunchedJob::make_process_team() {
  // The store identifies a process by its first rank, because all ranks of a process are lost together.
  std::vector<int> first_ranks;
  for (int process = 0; process < membership_.processes; ++process)
    first_ranks.push_back(process * membership_.ranks_per_process);
  process_team_ = std::make_unique<StoreTeam>(*stores_[0], process_state_, std::move(first_ranks), membership_.process,
                                              "the processes");
}

/// Calls `on_tick`. If `on_tick` throws, sends the failure to the store before the exception closes this process's
/// connections.
void LaunchedJob::tick_while_joining() {
  try {
    callbacks_.on_tick();
  } catch (const Error& error) {
    abort(error.exit(), error.what());
    static_cast<void>(failure());  // waits up to 1 s for the store's answer
    throw;
  }
  if (aborted()) throw JobAborted();
}

/// Process 0: waits until every process has joined or is lost, and reports the missing ones from time to time.
void LaunchedJob::wait_until_all_joined() {
  const int limit_ticks = ticks_of(membership_.join_limit_s);
  int next_status_tick = kFirstStatusTicks;
  bool has_reported_mismatch = false;
  for (int tick = 0;; ++tick) {
    const std::vector<int> missing = server_->tracker().missing_processes();
    if (missing.empty()) return;
    callbacks_.on_tick();
    if (aborted()) throw JobAborted();
    // A process with the job's token but other settings was refused. It is one of the missing processes and does not
    // try again, so waiting is useless.
    if (const auto refusal = server_->tracker().first_refusal()) throw Error(refusal->exit, refusal->message);
    if (tick >= limit_ticks) return give_up(missing);
    const bool is_mismatch_new = !has_reported_mismatch && !mismatch_text().empty();
    has_reported_mismatch = has_reported_mismatch || is_mismatch_new;
    if (is_mismatch_new || tick >= next_status_tick) {
      callbacks_.on_status(fmt::format("{}{}; process 0 listens at {}", missing_text(missing), mismatch_text(),
                                       rendezvous_.listen_address_text()));
      next_status_tick = tick + kStatusTicks;
    }
    sleep_tick();
  }
}

/// Continues without the missing processes if the job tolerates losses, otherwise throws Error.
void LaunchedJob::give_up(const std::vector<int>& missing) {
  if (!membership_.tolerates_losses) throw Error(ExitCode::rank_lost, join_timeout_message(missing));
  callbacks_.on_status(
      fmt::format("{}; the job continues without {}", missing_text(missing), missing.size() == 1 ? "it" : "them"));
  server_->lose_absent_processes(
      membership_.hosts,
      fmt::format("did not join the job within {:g} s{}; check that it runs and reaches {} on {}",
                  membership_.join_limit_s, mismatch_text(), rendezvous_.listen_address_text(), host_name()));
}

std::string LaunchedJob::missing_text(const std::vector<int>& missing) const {
  return fmt::format("{} of {} processes {} not joined: {}", missing.size(), membership_.processes,
                     missing.size() == 1 ? "has" : "have", number_list_text(missing));
}

std::string LaunchedJob::join_timeout_message(const std::vector<int>& missing) const {
  const int rejected = server_->rejected_connections();
  const std::string rejected_text =
      rejected == 0 ? "" : fmt::format(", and {} connection{} rejected", rejected, rejected == 1 ? " was" : "s were");
  return fmt::format(
      "{} (limit {:g} s){}{}; check that they run and reach process 0 on {}, which listens at {} (a firewall?), or "
      "raise BUSBW_JOIN_TIMEOUT_S and -T",
      missing_text(missing), membership_.join_limit_s, rejected_text, mismatch_text(), host_name(),
      rendezvous_.listen_address_text());
}

/// Returns what process 0 knows about clients with another token or version, for the end of a message. Empty if
/// nothing.
std::string LaunchedJob::mismatch_text() const {
  std::string text;
  for (const std::string& mismatch :
       {server_->tracker().token_mismatch_message(), server_->tracker().version_mismatch_message()})
    if (!mismatch.empty()) text += "; " + mismatch;
  return text;
}

Bytes LaunchedJob::agree(const Bytes& own_message, const std::function<Bytes(const std::vector<Bytes>&)>& decide) {
  try {
    const std::vector<Bytes> gathered = process_team_->gather(own_message);
    return process_team_->broadcast(server_ ? decide(gathered) : Bytes());
  } catch (const JobAborted&) {
    const Failure first_failure = *failure();
    throw Error(first_failure.exit, first_failure.message);
  } catch (const std::exception& error) {
    fail_with(error, error.what());
  }
}

void LaunchedJob::fail_with(const std::exception& error, const std::string& message) {
  abort(exit_code_of(error), message);
  throw_first_failure(*failure(), message);
}

// ---- running --------------------------------------------------------------------------------------------------------

std::unique_ptr<TcpStore> LaunchedJob::connect_store() {
  StoreCallbacks callbacks;
  // A waiting store calls `aborted` every tick. Until the ranks start, that thread must also do the work of a tick.
  callbacks.aborted = [this] {
    if (is_agreeing_) callbacks_.on_tick();
    return aborted();
  };
  callbacks.on_failure = [this](const Failure& failure) { record_failure(failure); };
  callbacks.on_lost_store = [this](const std::string& cause) { on_store_lost(cause); };
  const double extra_s = server_ ? 0 : kOtherProcessesExtraS;
  return std::make_unique<TcpStore>(rendezvous_.join(/*is_control=*/false), std::move(callbacks),
                                    membership_.step_limit_s + extra_s);
}

std::unique_ptr<Team> LaunchedJob::team(int rank) {
  const auto local_index = static_cast<std::size_t>(rank % membership_.ranks_per_process);
  is_agreeing_ = false;
  stores_[local_index]->set_limit_s(kNoLimitS);  // from here on, the watchdog limits the waits
  std::vector<int> all_members(static_cast<std::size_t>(ranks()));
  std::iota(all_members.begin(), all_members.end(), 0);
  return std::make_unique<StoreTeam>(*stores_[local_index], local_ranks_[local_index], std::move(all_members), rank,
                                     "the job");
}

/// Records the failure that the store reported. It replaces an unconfirmed failure of this process.
void LaunchedJob::record_failure(const Failure& failure) noexcept {
  const std::scoped_lock lock(mutex_);
  if (!failure_ || is_unconfirmed_) failure_ = failure;
  is_unconfirmed_ = false;
  aborted_.store(true, std::memory_order_release);
  failure_changed_.notify_all();
}

void LaunchedJob::abort(ExitCode exit, const std::string& message) noexcept {
  const std::scoped_lock lock(mutex_);
  if (failure_) return;
  failure_ = Failure{exit, message};
  is_own_failure_ = true;
  is_unconfirmed_ = is_control_open_;
  aborted_.store(true, std::memory_order_release);
}

/// Aborts the job because a connection to the store is lost. `cause` is the end of the message.
void LaunchedJob::on_store_lost(const std::string& cause) noexcept {
  if (is_leaving_) return;
  // The store's failure message may still be in transit on another connection, so wait up to 1 s for it.
  for (int tick = 0; tick < kTicksPerS && !aborted(); ++tick) sleep_tick();
  const LocalRank& slowest = *std::ranges::min_element(
      local_ranks_, {}, [](const LocalRank& rank) { return rank.steps.load(std::memory_order_relaxed); });
  const std::string_view phase = name(slowest.phase.load());
  if (is_control_lost_) {
    record_failure(
        {ExitCode::rank_lost, fmt::format("rank 0 (process 0 on {}) was lost in phase {}: {}; check its output and its "
                                          "host",
                                          process_0_host_, phase, cause)});
  } else {
    abort(
        ExitCode::rank_lost,
        fmt::format(
            "{} lost its connection to process 0 on {} in phase {}: {}; another connection to it works, so check for a "
            "firewall between the hosts that closes connections",
            rank_name(membership_.process * membership_.ranks_per_process), process_0_host_, phase, cause));
  }
}

/// Waits up to 1 s for the store to confirm this process's failure or to answer with an earlier one of another process.
std::optional<Failure> LaunchedJob::failure() const {
  std::unique_lock lock(mutex_);
  failure_changed_.wait_for(lock, std::chrono::milliseconds(kTicksPerS * kTickMs), [this] { return !is_unconfirmed_; });
  return failure_;
}

/// Ends the waits in failure(). Call it when the control thread ends, because no answer can arrive afterwards.
void LaunchedJob::close_control() noexcept {
  const std::scoped_lock lock(mutex_);
  is_control_open_ = false;
  is_unconfirmed_ = false;
  failure_changed_.notify_all();
}

RankProgress LaunchedJob::progress(int rank) const {
  if (!is_local_rank(rank)) return server_ ? server_->tracker().progress(rank) : RankProgress{};
  const LocalRank& local_rank = local_ranks_[static_cast<std::size_t>(rank % membership_.ranks_per_process)];
  return {local_rank.phase.load(std::memory_order_relaxed), local_rank.steps.load(std::memory_order_relaxed),
          local_rank.issued.operations(), local_rank.issued.bytes()};
}

std::vector<int> LaunchedJob::stopped_ranks() const {
  std::vector<int> ranks;
  if (!server_) return ranks;
  for (const int process : server_->tracker().silent_processes(kStoppedHeartbeats * max_heartbeat_ticks()))
    for (int i = 0; i < membership_.ranks_per_process; ++i)
      ranks.push_back(process * membership_.ranks_per_process + i);
  return ranks;
}

void LaunchedJob::tolerate_losses(bool is_tolerated) {
  {
    const std::scoped_lock lock(mutex_);
    tolerates_losses_ = is_tolerated;
  }
  if (server_) server_->tolerate_losses(is_tolerated);
}

bool LaunchedJob::lose_ranks(const std::vector<int>& ranks, const std::string& reason) {
  std::set<int> processes;
  for (const int rank : ranks) processes.insert(rank / membership_.ranks_per_process);
  return server_ && server_->lose_processes(processes, "was left out: " + reason);
}

std::map<int, Loss> LaunchedJob::lost_ranks() const {
  std::map<int, Loss> ranks;
  if (!server_) return ranks;
  for (const auto& [process, loss] : server_->tracker().lost_processes())
    for (int i = 0; i < membership_.ranks_per_process; ++i)
      ranks.emplace(process * membership_.ranks_per_process + i, loss);
  return ranks;
}

std::string LaunchedJob::rank_name(int rank) const {
  if (is_local_rank(rank)) return fmt::format("rank {} on {}", rank, host_name());
  if (!server_) return fmt::format("rank {}", rank);
  const std::string host = server_->tracker().host_of_process(rank / membership_.ranks_per_process);
  return host.empty() ? fmt::format("rank {}", rank) : fmt::format("rank {} on {}", rank, host);
}

std::string LaunchedJob::with_rank_name(int rank, const std::string& message) const {
  return fmt::format("{}: {}", rank_name(rank), message);
}

/// Main function of the control thread.
void LaunchedJob::run_control_thread() noexcept {
  block_all_signals();
  try {
    exchange_control_frames();
  } catch (const BrokenMessage&) {
    on_store_lost("it sent an invalid message");
  } catch (const std::exception& error) {
    on_store_lost(fmt::format("communication with it failed: {}", error.what()));
  }
  close_control();
}

/// Returns the time without a frame after which the other end of a control connection counts as lost.
int LaunchedJob::max_silent_ticks() const { return std::max(kTicksPerS, ticks_of(membership_.silence_s)); }

/// Returns the maximum interval of heartbeats: 0.5 s, or in a large job the time that kMaxHeartbeatsPerTick requires.
int LaunchedJob::max_heartbeat_ticks() const {
  return std::max(kTicksPerS / 2, membership_.processes / kMaxHeartbeatsPerTick);
}

/// Returns the progress of each local rank, as ProcessTracker::record_heartbeat reads it.
Bytes LaunchedJob::make_heartbeat() const {
  MessageWriter heartbeat;
  for (const LocalRank& rank : local_ranks_)
    heartbeat.add(static_cast<std::uint8_t>(rank.phase.load(std::memory_order_relaxed)))
        .add(rank.steps.load(std::memory_order_relaxed))
        .add(rank.issued.operations())
        .add(rank.issued.bytes());
  return heartbeat.bytes();
}

/// Sends the job's failure to the store if a failure began in this process, else returns false. The sent failure is an
/// earlier one if the store has reported it meanwhile.
bool LaunchedJob::send_own_failure() {
  const std::scoped_lock lock(mutex_);
  if (is_own_failure_) control_->send(FrameKind::abort, packed(*failure_));
  return is_own_failure_;
}

void LaunchedJob::send_leave() {
  const std::scoped_lock lock(mutex_);
  if (withdrawal_reason_.empty())
    control_->send(FrameKind::leave, {});
  else
    control_->send(FrameKind::withdraw, MessageWriter().add(withdrawal_reason_).bytes());
}

/// Aborts the job, unless this process is leaving the job.
void LaunchedJob::on_control_lost(const std::string& cause) noexcept {
  is_control_lost_ = true;
  on_store_lost(cause);
}

/// Sends heartbeats, this process's failure and the leave frame to the store, and receives the job's failure. Returns
/// after the store's answer to the leave frame, or if the store is lost.
void LaunchedJob::exchange_control_frames() {
  const int heartbeat_ticks = std::clamp(max_silent_ticks() / kMinHeartbeatsPerSilence, 1, max_heartbeat_ticks());
  int silent_ticks = 0;
  int ticks_until_heartbeat = 0;
  int ticks_since_leave = 0;
  bool has_sent_abort = false;
  bool has_sent_leave = false;
  while (ticks_since_leave < kLeaveTicks) {
    if (!has_sent_abort) has_sent_abort = send_own_failure();
    if (is_leaving_ && !has_sent_leave) {
      send_leave();
      has_sent_leave = true;
    }
    if (ticks_until_heartbeat == 0 && !has_sent_leave) {
      control_->send(FrameKind::heartbeat, make_heartbeat());
      ticks_until_heartbeat = heartbeat_ticks;
    }
    --ticks_until_heartbeat;

    if (const auto received = control_->receive(kTickMs)) {
      silent_ticks = 0;
      if (received->kind == FrameKind::failure) {
        MessageReader reader(received->body);
        record_failure(unpack_failure(reader));
      }
      if (received->kind == FrameKind::leave && has_sent_leave) return;
      continue;
    }
    if (control_->ended()) return on_control_lost("its connection closed before the job ended");
    const bool is_silent_tick = control_->idle();  // false if a part of a frame arrived
    if (!is_silent_tick) continue;
    if (has_sent_leave) ++ticks_since_leave;
    ++silent_ticks;
    if (silent_ticks > max_silent_ticks())
      return on_control_lost(
          fmt::format("it sent nothing for {:g} s; it is stopped, or the network to its host is down",
                      max_silent_ticks() * kTickMs * 1e-3));
  }
}

/// True if process 0 should wait for processes that have not joined yet, to send them the failure. Without the failure,
/// these processes search for process 0 until their time limit. Usage and environment errors often occur that early.
bool LaunchedJob::should_wait_for_absent() const {
  const auto first_failure = failure();
  return first_failure && (first_failure->exit == ExitCode::usage || first_failure->exit == ExitCode::environment);
}

bool LaunchedJob::withdraw(const std::string& reason) {
  const std::scoped_lock lock(mutex_);
  if (!tolerates_losses_ || server_ || failure_) return false;
  if (!withdrawal_reason_.empty()) return true;  // another rank of this process has withdrawn it
  callbacks_.on_status(reason);
  withdrawal_reason_ = reason;
  aborted_.store(true, std::memory_order_release);
  return true;
}

bool LaunchedJob::has_withdrawn() const {
  const std::scoped_lock lock(mutex_);
  return !withdrawal_reason_.empty();
}

void LaunchedJob::leave() noexcept {
  if (is_leaving_.exchange(true)) return;
  if (control_thread_.joinable()) control_thread_.join();
  if (!server_) return;
  server_->wait_until_all_left(kLeaveTicks, should_wait_for_absent());
  rendezvous_.withdraw_address();
}

}  // namespace busbw
