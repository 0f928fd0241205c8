#pragma once
// Who of a job's processes has come to process 0, how far each is, who was lost, and why the job ends.
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/store/tcp_wire.hpp"
#include "rendezvous/team/job.hpp"

namespace busbw {

/// Written by the thread that serves, read by process 0's others.
class ProcessTracker {
 public:
  /// `silence_ticks`: how long a process may say nothing.
  ProcessTracker(int processes, int ranks_per_process, int silence_ticks);

  // ---- what process 0 asks ----
  /// The processes that have not come yet.
  std::vector<int> missing() const;
  /// How far the rank is, by what its process told last.
  RankProgress progress(int rank) const;
  std::string host_of_process(int process) const;
  /// Why the job ends, if it does.
  std::optional<Failure> failure() const;
  /// Waits until every process has left or is gone, for at most `ticks`; false where some are still there.
  /// `also_absent`: those that have not come must come and leave, too, but for those that were refused.
  bool wait_until_all_left(int ticks, bool also_absent = false);
  /// Who of those that are missing came with another token; empty where nobody did. It may be a stranger, so that
  /// nothing but words follows from it.
  std::string other_token() const;
  /// Who speaks another version of the protocol; empty where nobody did. Nothing but words follows from it, either.
  std::string other_version() const;
  /// What was said to the first process that knows the job's token and yet does not fit in.
  std::optional<Failure> first_refusal() const;

  // ---- what the one who serves tells ----
  /// The job ends; false where it does already: the first reason stands.
  bool fail(const Failure& why);
  /// Somebody with another token says that it is this one. False where that is known: a process that is missing, and of
  /// which it was said before.
  bool report_token_mismatch(const ClientInfo& who);
  /// Somebody at this address speaks another version. False where that was said of one before.
  bool report_version_mismatch(const std::string& address, char version);
  /// Takes in a process, or a rank's connection of one; or says why it does not fit.
  std::optional<Failure> add_connection(const ClientInfo& who);
  /// How far the ranks of a process are. Throws BrokenMessage.
  void record_heartbeat(int process, MessageReader& reader);
  /// To which phase a rank of a process has come. Throws BrokenMessage.
  void record_phase(int process, MessageReader& reader);
  /// A process has said goodbye.
  void mark_left(int process);
  /// A connection has ended: a process's own, or one of its ranks'. Whether the process is lost with it.
  bool connection_closed(int process, bool is_process);
  /// A tick is over. Whether somebody has been silent for too long, and is lost.
  bool tick();

 private:
  struct Process {
    enum class State { absent, joined, left, lost };
    State state = State::absent;
    bool is_refused = false;  // it has heard why it does not fit
    std::string other_token;  // what is said of one that says it is this process
    int rank_connections = 0;
    int silent_ticks = 0;
    long pid = 0;
    std::string host;
    std::vector<RankProgress> ranks;
  };

  std::optional<Failure> refusal(const ClientInfo& who) const;
  bool is_of_job(int process) const { return process >= 0 && process < static_cast<int>(processes_.size()); }
  void mark_lost(int process, const std::string& how);
  std::string name_of(int process) const;
  Process& at(int process) { return processes_[static_cast<std::size_t>(process)]; }
  const Process& at(int process) const { return processes_[static_cast<std::size_t>(process)]; }

  int ranks_per_process_;
  int silence_ticks_;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<Process> processes_;
  std::optional<Failure> failure_;
  std::optional<Failure> first_refusal_;
  std::string other_version_;
};

}  // namespace busbw
