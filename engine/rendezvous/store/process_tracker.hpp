#pragma once
// Tracks, in process 0, which processes have joined, left or are lost, the progress of their ranks, and the job's
// failure. TcpStoreServer updates the tracker, and LaunchedJob queries it.
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/channel/tcp_wire.hpp"
#include "rendezvous/team/job.hpp"

namespace busbw {

/// States of all processes. The server thread reports events. Other threads of process 0 query the states, and decide
/// what a loss means. Thread-safe.
class ProcessTracker {
 public:
  /// `silence_ticks`: ticks (0.1 s) without a heartbeat after which a process is lost.
  ProcessTracker(int processes, int ranks_per_process, int silence_ticks);

  // ---- queries and decisions of process 0 ----
  /// Returns the numbers of the processes that have not joined yet.
  std::vector<int> missing_processes() const;
  /// Returns the progress of a rank, from the last heartbeat or phase report of its process.
  RankProgress progress(int rank) const;
  /// Returns the numbers of the joined processes without a heartbeat for more than `ticks`.
  std::vector<int> silent_processes(int ticks) const;
  std::string host_of_process(int process) const;
  /// If true, the job continues after the loss of a process other than process 0. If false, each loss is a failure.
  void tolerate_losses(bool is_tolerated);
  /// Marks the missing processes as lost. `event`: rest of the sentence about each, such as "did not join in 60 s".
  /// `hosts`: all hosts of the job, with equally many processes on each, in the order of the processes; empty if
  /// unknown. The messages name the host of a missing process if `hosts` and the joined processes determine it.
  void lose_missing_processes(const std::vector<std::string>& hosts, const std::string& event);
  /// Marks hanging processes as lost, if the job tolerates that. Returns true if it has marked at least one of
  /// `processes`. `event`: rest of the sentence about each.
  bool lose_processes(const std::set<int>& processes, const std::string& event);
  std::map<int, Loss> lost_processes() const;
  /// Returns the job's first failure, or nothing.
  std::optional<Failure> failure() const;
  /// Waits at most `ticks` until every joined process has left or is lost. False on timeout. `also_missing`: also waits
  /// until the missing processes, except refused ones, have joined and left.
  bool wait_until_all_left(int ticks, bool also_missing = false);
  /// Returns a message about a client that states the number of a missing process and has another token. Empty if there
  /// was no such client. The client is not authenticated, so use the message only as a hint.
  std::string token_mismatch_message() const;
  /// Returns a message about a client of another protocol version. Empty if there was no such client. Also only a hint,
  /// because the client is not authenticated.
  std::string version_mismatch_message() const;
  /// Returns the failure sent to the first client that has the job's token but other settings, for example another
  /// number of processes. Nothing if there was no such client. The refusal of a process that joins after its loss is
  /// not reported here.
  std::optional<Failure> first_refusal() const;

  // ---- updates by the server thread ----
  /// Records the job's failure. False if the job already has one; the first failure is kept.
  bool record_failure(const Failure& failure);
  /// Records a client with a wrong token, if it states the number of a missing process. Returns true unless that
  /// process was reported before.
  bool report_token_mismatch(const ClientInfo& client);
  /// Records a client of another version at `address`. Returns false if such a client was reported before.
  bool report_version_mismatch(const std::string& address, char version);
  /// Adds the control connection of a process, or the connection of one of its ranks. If the client's settings do not
  /// match the job, returns the failure to send.
  std::optional<Failure> add_connection(const ClientInfo& client);
  /// Records the progress of all ranks of a process. Throws BrokenMessage if the message is invalid.
  void record_heartbeat(int process, MessageReader& reader);
  /// Records the phase of one rank of a process. Throws BrokenMessage if the message is invalid.
  void record_phase(int process, MessageReader& reader);
  void mark_left(int process);
  /// Marks a process that left the job after an error of its own as lost. `reason`: rest of the sentence about it.
  void mark_withdrawn(int process, const std::string& reason);
  /// Records that the control connection of a process, or the connection of one of its ranks, closed. True if
  /// the closed connection makes the process lost.
  bool record_closed_connection(int process, bool is_control);
  /// Counts one tick (0.1 s) without a heartbeat for every joined process. True if a process is now lost.
  bool count_silent_tick();

 private:
  struct Process {
    /// missing: has not joined yet; left: ended with a leave frame; lost: ended otherwise, went silent, withdrew or did
    /// not join in time.
    enum class State { missing, joined, left, lost };
    State state = State::missing;
    bool is_refused = false;  // the process received a refusal
    std::string token_mismatch_message;  // message about a client with this process number and another token
    int rank_connections = 0;  // open connections of the process's ranks
    int silent_ticks = 0;
    long pid = 0;
    std::string host;
    std::string loss_message;  // if lost
    std::vector<RankProgress> ranks;
  };

  // All private functions need a locked mutex.
  /// Returns the failure to send to a client that cannot join, or nothing if the client can join.
  std::optional<Failure> join_refusal(const ClientInfo& client) const;
  bool is_process_number(int process) const { return process >= 0 && process < static_cast<int>(processes_.size()); }
  std::map<int, std::string> hosts_of_missing(std::vector<std::string> hosts) const;
  /// Marks a process as lost. `event`: rest of the sentence about the process, such as "did not join in 60 s".
  void mark_lost(int process, const std::string& event);
  /// Marks a joined process as lost. The message is "was lost in phase timing: " and the cause.
  void mark_joined_lost(int process, const std::string& cause);
  std::string process_name(int process_number) const;
  Process& process_at(int process) { return processes_[static_cast<std::size_t>(process)]; }
  const Process& process_at(int process) const { return processes_[static_cast<std::size_t>(process)]; }

  int ranks_per_process_;
  int silence_ticks_;
  mutable std::mutex mutex_;  // guards the following members
  std::condition_variable changed_;  // the state of a process changed
  std::vector<Process> processes_;
  bool tolerates_losses_ = false;
  std::optional<Failure> failure_;
  std::optional<Failure> first_refusal_;
  std::string version_mismatch_message_;
};

}  // namespace busbw
