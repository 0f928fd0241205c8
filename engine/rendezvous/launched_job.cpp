// Joins this process to the job, and starts the store in process 0. Process 0 knows the progress and the losses of all
// processes, every other process only its own.
#include "rendezvous/launched_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "common/os/provenance.hpp"
#include "common/os/ticker.hpp"
#include "rendezvous/join_wait.hpp"

namespace busbw {
namespace {

constexpr int kStoppedHeartbeats = 4;  // number of missing heartbeats after which a process counts as stopped
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
      local_ranks_(static_cast<std::size_t>(membership.ranks_per_process)),
      abort_state_(membership.tolerates_losses) {
  for (std::size_t i = 0; i < local_ranks_.size(); ++i) local_ranks_[i].index = static_cast<int>(i);
  try {
    if (membership_.process == 0) start_server();
    start_control();
    stores_.resize(local_ranks_.size());
    for (auto& store : stores_) store = connect_store();
    make_process_team();
    if (server_) JoinWait(*server_, membership_, callbacks_, abort_state_, rendezvous_.listen_address_text()).run();
    process_team_->broadcast({});  // the other processes wait here until all have joined
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
      abort_state_.record_failure(*server_->tracker().failure());
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
                                                              .silence_ticks = max_silent_ticks(membership_),
                                                              .host = host_name()});
    server_->tolerate_losses(membership_.tolerates_losses);
  } catch (...) {
    rendezvous_.withdraw_address();  // nothing listens there
    throw;
  }
}

void LaunchedJob::start_control() {
  control_ =
      std::make_unique<ControlConnection>(rendezvous_.join(/*is_control=*/true), membership_, local_ranks_,
                                          abort_state_, [this](const std::string& cause) { on_store_lost(cause); });
  process_0_host_ = rendezvous_.process_0_host();
  store_address_text_ = control_->peer();
  control_->start();
}

void LaunchedJob::make_process_team() {
  // The store identifies a process by its first rank, because all ranks of a process are lost together.
  std::vector<int> first_ranks;
  for (int process = 0; process < membership_.processes; ++process)
    first_ranks.push_back(process * membership_.ranks_per_process);
  process_team_ = std::make_unique<StoreTeam>(*stores_[0], process_team_state_, std::move(first_ranks),
                                              membership_.process, "the processes");
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

Bytes LaunchedJob::agree(const Bytes& own_message, const std::function<Bytes(const std::vector<Bytes>&)>& decide) {
  try {
    const std::vector<Bytes> gathered = process_team_->gather(own_message);
    return process_team_->broadcast(server_ ? decide(gathered) : Bytes());
  } catch (const JobAborted&) {
    const Failure first_failure = *failure();
    throw Error(first_failure.exit, first_failure.message);
  } catch (const std::exception& error) {
    abort_and_throw(error, error.what());
  }
}

void LaunchedJob::abort_and_throw(const std::exception& error, const std::string& message) {
  abort(exit_code_of(error), message);
  throw_first_failure(*failure(), message);
}

std::unique_ptr<TcpStore> LaunchedJob::connect_store() {
  StoreCallbacks callbacks;
  // A waiting store calls `aborted` every tick. Until the ranks start, that thread must also do the work of a tick.
  callbacks.aborted = [this] {
    if (!have_ranks_started_) callbacks_.on_tick();
    return aborted();
  };
  callbacks.on_failure = [this](const Failure& failure) { abort_state_.record_failure(failure); };
  callbacks.on_lost_store = [this](const std::string& cause) { on_store_lost(cause); };
  const double extra_s = server_ ? 0 : kOtherProcessesExtraS;
  return std::make_unique<TcpStore>(rendezvous_.join(/*is_control=*/false), std::move(callbacks),
                                    membership_.step_limit_s + extra_s);
}

// ---- running --------------------------------------------------------------------------------------------------------

std::unique_ptr<Team> LaunchedJob::team(int rank) {
  const auto local_index = static_cast<std::size_t>(rank % membership_.ranks_per_process);
  have_ranks_started_ = true;
  stores_[local_index]->set_limit_s(kNoLimitS);  // from here on, the watchdog limits the waits
  std::vector<int> all_members(static_cast<std::size_t>(ranks()));
  std::iota(all_members.begin(), all_members.end(), 0);
  return std::make_unique<StoreTeam>(*stores_[local_index], local_ranks_[local_index], std::move(all_members), rank,
                                     "the job");
}

/// Aborts the job because a connection to the store is lost. `cause` is the end of the message.
void LaunchedJob::on_store_lost(const std::string& cause) noexcept {
  if (control_->is_leaving()) return;
  // The store's failure message may still be in transit on another connection, so wait up to 1 s for it.
  for (int tick = 0; tick < kTicksPerS && !aborted(); ++tick) sleep_tick();
  const LocalRank& slowest = *std::ranges::min_element(
      local_ranks_, {}, [](const LocalRank& rank) { return rank.steps.load(std::memory_order_relaxed); });
  const std::string_view phase = name(slowest.phase.load());
  if (control_->is_lost()) {  // process 0 is lost, so its store cannot confirm the failure
    abort_state_.record_failure(
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

RankProgress LaunchedJob::progress(int rank) const {
  if (!is_local_rank(rank)) return server_ ? server_->tracker().progress(rank) : RankProgress{};
  const LocalRank& local_rank = local_ranks_[static_cast<std::size_t>(rank % membership_.ranks_per_process)];
  return {local_rank.phase.load(std::memory_order_relaxed), local_rank.steps.load(std::memory_order_relaxed),
          local_rank.issued.operations(), local_rank.issued.bytes()};
}

std::vector<int> LaunchedJob::stopped_ranks() const {
  std::vector<int> ranks;
  if (!server_) return ranks;
  for (const int process : server_->tracker().silent_processes(kStoppedHeartbeats * max_heartbeat_ticks(membership_)))
    for (int i = 0; i < membership_.ranks_per_process; ++i)
      ranks.push_back(process * membership_.ranks_per_process + i);
  return ranks;
}

void LaunchedJob::tolerate_losses(bool is_tolerated) {
  abort_state_.tolerate_losses(is_tolerated);
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

/// True if process 0 must wait for processes that have not joined yet, to send them the failure. Without the failure,
/// they would search for process 0 until their time limit. Usage and environment errors often occur before all
/// processes have joined.
bool LaunchedJob::must_inform_missing_processes() const {
  const auto first_failure = failure();
  return first_failure && (first_failure->exit == ExitCode::usage || first_failure->exit == ExitCode::environment);
}

void LaunchedJob::leave() noexcept {
  if (has_left_.exchange(true)) return;
  if (control_) control_->leave();
  if (!server_) return;
  server_->wait_until_all_left(kLeaveTicks, /*also_missing=*/must_inform_missing_processes());
  rendezvous_.withdraw_address();
}

}  // namespace busbw
