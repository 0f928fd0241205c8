// States of the processes and messages about their ends. Decides which end is a failure of the job. Several threads of
// process 0 use the tracker. So every public function locks the mutex, and the private functions need a locked mutex.
#include "rendezvous/store/process_tracker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "common/os/ticker.hpp"
#include "common/support/number_list.hpp"
#include "common/support/printable.hpp"

namespace busbw {
namespace {

Phase take_phase_from(MessageReader& reader) {
  const auto phase = reader.take<std::uint8_t>();
  if (phase >= kPhases.size()) throw BrokenMessage();
  return static_cast<Phase>(phase);
}

}  // namespace

ProcessTracker::ProcessTracker(int processes, int ranks_per_process, int silence_ticks)
    : ranks_per_process_(ranks_per_process),
      silence_ticks_(silence_ticks),
      processes_(static_cast<std::size_t>(processes)) {
  for (Process& process : processes_) process.ranks.resize(static_cast<std::size_t>(ranks_per_process));
}

// ---- queries and decisions of process 0 -----------------------------------------------------------------------------

std::vector<int> ProcessTracker::missing_processes() const {
  const std::scoped_lock lock(mutex_);
  std::vector<int> numbers;
  for (std::size_t i = 0; i < processes_.size(); ++i)
    if (processes_[i].state == Process::State::missing) numbers.push_back(static_cast<int>(i));
  return numbers;
}

std::vector<int> ProcessTracker::silent_processes(int ticks) const {
  const std::scoped_lock lock(mutex_);
  std::vector<int> numbers;
  for (std::size_t i = 0; i < processes_.size(); ++i)
    if (processes_[i].state == Process::State::joined && processes_[i].silent_ticks > ticks)
      numbers.push_back(static_cast<int>(i));
  return numbers;
}

RankProgress ProcessTracker::progress(int rank) const {
  const std::scoped_lock lock(mutex_);
  return process_at(rank / ranks_per_process_).ranks[static_cast<std::size_t>(rank % ranks_per_process_)];
}

/// Returns the name for messages: "rank 3 (process 3, pid 123 on n2)".
std::string ProcessTracker::process_name(int process_number) const {
  const Process& process = process_at(process_number);
  const std::string ranks = process_ranks_text(process_number, ranks_per_process_);
  if (process.host.empty()) return fmt::format("{} (process {})", ranks, process_number);
  if (process.pid == 0) return fmt::format("{} (process {} on {})", ranks, process_number, process.host);
  return fmt::format("{} (process {}, pid {} on {})", ranks, process_number, process.pid, process.host);
}

std::string ProcessTracker::host_of_process(int process) const {
  const std::scoped_lock lock(mutex_);
  return process_at(process).host;
}

void ProcessTracker::tolerate_losses(bool is_tolerated) {
  const std::scoped_lock lock(mutex_);
  tolerates_losses_ = is_tolerated;
}

void ProcessTracker::lose_missing_processes(const std::vector<std::string>& hosts, const std::string& event) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [process, host] : hosts_of_missing(hosts)) process_at(process).host = host;
  for (std::size_t i = 0; i < processes_.size(); ++i)
    if (processes_[i].state == Process::State::missing) mark_lost(static_cast<int>(i), event);
}

bool ProcessTracker::lose_processes(const std::set<int>& processes, const std::string& event) {
  const std::scoped_lock lock(mutex_);
  if (!tolerates_losses_ || processes.empty() || processes.contains(0)) return false;
  bool has_lost = false;
  for (const int process : processes) {
    // A process that is missing, has left or is already lost does not hang.
    if (process_at(process).state != Process::State::joined) continue;
    mark_lost(process, event);
    has_lost = true;
  }
  return has_lost;
}

/// Returns the host of each missing process. Empty if the host of any missing process is uncertain. A missing host is a
/// host without a joined process. Example: with `hosts` {a, b}, 4 processes, and 0 and 1 joined on a, the processes 2
/// and 3 are on b. The hosts are certain if all these conditions are met:
///
/// - the names in `hosts` differ, and the hosts of all joined processes are among the names;
/// - the processes are divided equally among the hosts;
/// - every missing process is on a missing host;
/// - only one host is missing, or the joined processes are on their hosts in the order of `hosts`.
std::map<int, std::string> ProcessTracker::hosts_of_missing(std::vector<std::string> hosts) const {
  for (std::string& host : hosts) host = host.substr(0, host.find('.'));  // processes report names without a domain
  const bool are_distinct = std::set(hosts.begin(), hosts.end()).size() == hosts.size();
  if (hosts.empty() || !are_distinct || processes_.size() % hosts.size() != 0) return {};
  const std::size_t processes_per_host = processes_.size() / hosts.size();
  std::vector<int> missing_numbers;
  std::vector<std::string> missing_hosts = hosts;
  bool is_in_order = true;
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (processes_[i].state == Process::State::missing) {
      missing_numbers.push_back(static_cast<int>(i));
      continue;
    }
    const std::string& host = processes_[i].host;
    if (std::ranges::find(hosts, host) == hosts.end()) return {};  // the list has other names, such as addresses
    std::erase(missing_hosts, host);
    is_in_order = is_in_order && hosts[i / processes_per_host] == host;
  }
  const bool are_all_on_missing_hosts = missing_numbers.size() == missing_hosts.size() * processes_per_host;
  if (!are_all_on_missing_hosts) return {};
  if (missing_hosts.size() > 1 && !is_in_order) return {};
  // The missing processes and the missing hosts are both in the order of `hosts`.
  std::map<int, std::string> host_by_process;
  for (std::size_t i = 0; i < missing_numbers.size(); ++i)
    host_by_process.emplace(missing_numbers[i], missing_hosts[i / processes_per_host]);
  return host_by_process;
}

std::map<int, Loss> ProcessTracker::lost_processes() const {
  const std::scoped_lock lock(mutex_);
  std::map<int, Loss> lost;
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    const Process& process = processes_[i];
    if (process.state != Process::State::lost) continue;
    const std::string host = process.host.empty() ? fmt::format("unknown (process {})", i) : process.host;
    lost.emplace(static_cast<int>(i), Loss{host, process.loss_message});
  }
  return lost;
}

std::optional<Failure> ProcessTracker::failure() const {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

std::string ProcessTracker::token_mismatch_message() const {
  const std::scoped_lock lock(mutex_);
  for (const Process& process : processes_)
    if (process.state == Process::State::missing && !process.token_mismatch_message.empty())
      return process.token_mismatch_message;
  return {};
}

std::string ProcessTracker::version_mismatch_message() const {
  const std::scoped_lock lock(mutex_);
  return version_mismatch_message_;
}

std::optional<Failure> ProcessTracker::first_refusal() const {
  const std::scoped_lock lock(mutex_);
  return first_refusal_;
}

bool ProcessTracker::wait_until_all_left(int ticks, bool also_missing) {
  std::unique_lock lock(mutex_);
  const auto is_awaited = [also_missing](const Process& process) {
    return process.state == Process::State::joined ||
           (also_missing && process.state == Process::State::missing && !process.is_refused);
  };
  return changed_.wait_for(lock, std::chrono::milliseconds(ticks * kTickMs),
                           [&] { return std::ranges::none_of(processes_, is_awaited); });
}

// ---- updates by the server thread -----------------------------------------------------------------------------------

bool ProcessTracker::record_failure(const Failure& failure) {
  const std::scoped_lock lock(mutex_);
  if (failure_) return false;
  failure_ = failure;
  return true;
}

bool ProcessTracker::report_token_mismatch(const ClientInfo& client) {
  const std::scoped_lock lock(mutex_);
  if (!is_process_number(client.process)) return true;
  Process& process = process_at(client.process);
  if (process.state != Process::State::missing) return true;
  if (!process.token_mismatch_message.empty()) return false;
  process.token_mismatch_message = fmt::format(
      "a client that identifies as process {} on {} has another token; set the same BUSBW_TOKEN_FILE "
      "everywhere",
      client.process, printable_value(client.host));
  return true;
}

bool ProcessTracker::report_version_mismatch(const std::string& address, char version) {
  const std::scoped_lock lock(mutex_);
  if (!version_mismatch_message_.empty()) return false;
  version_mismatch_message_ = fmt::format(
      "a client at {} uses version {} of busbw's protocol, process 0 version {}; install the same busbw everywhere",
      address, version, kWireVersion);
  return true;
}

std::optional<Failure> ProcessTracker::join_refusal(const ClientInfo& client) const {
  const std::string name = fmt::format("process {} on {}", client.process, printable_value(client.host));
  const int processes = static_cast<int>(processes_.size());
  if (client.processes != processes)
    return Failure{ExitCode::environment, fmt::format("{} expects {} processes, process 0 expects {}; set the same "
                                                      "BUSBW_SIZE everywhere",
                                                      name, client.processes, processes)};
  if (client.ranks_per_process != ranks_per_process_)
    return Failure{ExitCode::usage, fmt::format("{} has {} ranks, process 0 has {}; use the same -t and -g everywhere",
                                                name, client.ranks_per_process, ranks_per_process_)};
  if (!is_process_number(client.process))
    return Failure{ExitCode::environment, fmt::format("no process {} in a job of {}; number the processes from 0 "
                                                      "(BUSBW_RANK)",
                                                      client.process, processes)};
  const Process& process = process_at(client.process);
  if (!client.is_control || process.state == Process::State::missing) return std::nullopt;
  const bool has_never_joined = process.pid == 0;
  if (process.state == Process::State::lost && has_never_joined)
    return Failure{ExitCode::rank_lost, fmt::format("{} joined after the time limit, and the job continues without it; "
                                                    "raise BUSBW_JOIN_TIMEOUT_S and -T",
                                                    name)};
  if (process.state == Process::State::lost)
    return Failure{ExitCode::rank_lost, fmt::format("{} was lost, and the job continues without it, so {} cannot join",
                                                    process_name(client.process), name)};
  return Failure{ExitCode::environment,
                 fmt::format("{} has already joined, and {} has the same number; set a different "
                             "BUSBW_RANK for each",
                             process_name(client.process), name)};
}

std::optional<Failure> ProcessTracker::add_connection(const ClientInfo& client) {
  const std::scoped_lock lock(mutex_);
  if (const auto failure = join_refusal(client)) {
    // With rank_lost, the client's settings are right, but the job already continues without its process.
    const bool has_wrong_settings = failure->exit != ExitCode::rank_lost;
    if (has_wrong_settings && !first_refusal_) first_refusal_ = failure;
    if (is_process_number(client.process)) process_at(client.process).is_refused = true;
    return failure;
  }
  Process& process = process_at(client.process);
  if (!client.is_control) {
    ++process.rank_connections;
    return std::nullopt;
  }
  process.state = Process::State::joined;
  process.pid = static_cast<long>(client.pid);
  process.host = printable_value(client.host);
  changed_.notify_all();
  return std::nullopt;
}

void ProcessTracker::record_heartbeat(int process_number, MessageReader& reader) {
  const std::scoped_lock lock(mutex_);
  Process& process = process_at(process_number);
  for (RankProgress& rank : process.ranks) {
    const Phase phase = take_phase_from(reader);
    const auto steps = reader.take<std::uint64_t>();
    const auto operations = reader.take<std::uint64_t>();
    rank = {phase, steps, operations, reader.take<std::uint64_t>()};
  }
  process.silent_ticks = 0;
}

void ProcessTracker::record_phase(int process, MessageReader& reader) {
  const auto index = reader.take<std::uint32_t>();
  const Phase phase = take_phase_from(reader);
  const std::scoped_lock lock(mutex_);
  auto& ranks = process_at(process).ranks;
  if (index >= ranks.size()) throw BrokenMessage();
  ranks[index].phase = phase;
}

void ProcessTracker::mark_left(int process) {
  const std::scoped_lock lock(mutex_);
  process_at(process).state = Process::State::left;
  changed_.notify_all();
}

void ProcessTracker::mark_withdrawn(int process, const std::string& reason) {
  const std::scoped_lock lock(mutex_);
  mark_lost(process, reason);
}

bool ProcessTracker::record_closed_connection(int process_number, bool is_control) {
  const std::scoped_lock lock(mutex_);
  Process& process = process_at(process_number);
  if (!is_control) {
    --process.rank_connections;
    // A rank that repeats an attempt to connect can leave an additional connection, which closes without a loss.
    const bool each_rank_has_connection = process.rank_connections >= ranks_per_process_;
    if (each_rank_has_connection) return false;
  }
  if (process.state != Process::State::joined) return false;
  mark_joined_lost(process_number, fmt::format("its connection closed before it ended; check its output, and the "
                                               "kernel log of {} for a cause such as lack of memory",
                                               process.host));
  return true;
}

bool ProcessTracker::count_silent_tick() {
  bool is_any_lost = false;
  const std::scoped_lock lock(mutex_);
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    Process& process = processes_[i];
    if (process.state != Process::State::joined) continue;
    ++process.silent_ticks;
    if (process.silent_ticks <= silence_ticks_) continue;
    mark_joined_lost(static_cast<int>(i),
                     fmt::format("it sent nothing for {:g} s; it is stopped, or the network to its host is down",
                                 silence_ticks_ * kTickMs * 1e-3));
    is_any_lost = true;
  }
  return is_any_lost;
}

void ProcessTracker::mark_joined_lost(int process, const std::string& cause) {
  // The rank with the fewest steps shows where the process stopped.
  const Phase phase = std::ranges::min(process_at(process).ranks, {}, &RankProgress::steps).phase;
  mark_lost(process, fmt::format("was lost in phase {}: {}", name(phase), cause));
}

void ProcessTracker::mark_lost(int process, const std::string& event) {
  Process& lost = process_at(process);
  lost.state = Process::State::lost;
  lost.loss_message = fmt::format("{} {}", process_name(process), event);
  const bool is_tolerated = tolerates_losses_ && process != 0;
  if (!failure_ && !is_tolerated) failure_ = Failure{ExitCode::rank_lost, lost.loss_message};
  changed_.notify_all();
}

}  // namespace busbw
