#pragma once
// A job of separately started processes, on one or more hosts. They communicate through the rendezvous store in process
// 0. Each process has one store connection per rank, and a control connection (control_connection.hpp).
#include <atomic>
#include <functional>
#include <memory>

#include "rendezvous/abort_state.hpp"
#include "rendezvous/control_connection.hpp"
#include "rendezvous/rendezvous_point.hpp"
#include "rendezvous/store/tcp_store_server.hpp"
#include "rendezvous/store_team.hpp"
#include "rendezvous/team/job.hpp"

namespace busbw {

/// The job as one of its processes sees it. Process 0 also runs the store.
class LaunchedJob final : public Job {
 public:
  /// Returns when every process has joined. A job that tolerates losses counts the missing processes as lost after the
  /// time limit. Throws Error if a process cannot join; the message names the cause and a remedy.
  LaunchedJob(const Membership& membership, JoinCallbacks callbacks);
  ~LaunchedJob() override;

  int ranks() const override { return membership_.processes * membership_.ranks_per_process; }
  std::unique_ptr<Team> team(int rank) override;
  void abort(ExitCode exit, const std::string& message) noexcept override { abort_state_.abort(exit, message); }
  bool aborted() const noexcept override { return abort_state_.aborted(); }
  std::optional<Failure> failure() const override { return abort_state_.failure(); }
  RankProgress progress(int rank) const override;
  std::vector<int> stopped_ranks() const override;
  void tolerate_losses(bool is_tolerated) override;
  bool lose_ranks(const std::vector<int>& ranks, const std::string& reason) override;
  bool withdraw(const std::string& reason) override {
    return !server_ && abort_state_.withdraw(reason, callbacks_.on_status);
  }
  bool has_withdrawn() const override { return !abort_state_.withdrawal_reason().empty(); }
  std::map<int, Loss> lost_ranks() const override;
  std::string rank_name(int rank) const override;
  std::string with_rank_name(int rank, const std::string& message) const override;
  bool watches_all_ranks() const override { return server_ != nullptr; }

  /// Makes a decision for all processes: gathers the `own_message` of each, calls `decide` with all messages in process
  /// 0, and returns the result of `decide` in every process. The message of a lost process is empty. All processes must
  /// make the same calls, before their ranks start. An exception from `decide` aborts the job.
  Bytes agree(const Bytes& own_message, const std::function<Bytes(const std::vector<Bytes>&)>& decide);
  /// Call it from the catch block of `error`. Aborts the job with `message` and rethrows `error`. If another process
  /// failed earlier, throws that failure instead.
  [[noreturn]] void abort_and_throw(const std::exception& error, const std::string& message);
  /// Returns the address at which this process reached the store: "10.0.0.1:4711".
  const std::string& store_address_text() const { return store_address_text_; }
  /// Leaves the job. Call it when this process's ranks have ended and its output is complete. A process that has
  /// withdrawn sends the reason. Process 0 waits up to 5 s until all other processes have left.
  void leave() noexcept;

 private:
  /// Starts the store. Only in process 0.
  void start_server();
  /// Connects to the store for heartbeats and failures.
  void start_control();
  void make_process_team();
  void tick_while_joining();
  bool must_inform_missing_processes() const;
  void on_store_lost(const std::string& cause) noexcept;
  bool is_local_rank(int rank) const { return rank / membership_.ranks_per_process == membership_.process; }
  std::unique_ptr<TcpStore> connect_store();

  Membership membership_;
  JoinCallbacks callbacks_;
  RendezvousPoint rendezvous_;
  std::unique_ptr<TcpStoreServer> server_;  // only in process 0
  std::string store_address_text_;
  std::string process_0_host_;
  std::vector<LocalRank> local_ranks_;
  LocalRank process_team_state_;  // steps of this process in `process_team_`
  std::vector<std::unique_ptr<TcpStore>> stores_;  // one for each local rank
  std::unique_ptr<Team> process_team_;             // team of all processes for `agree`, over the first store
  std::atomic<bool> have_ranks_started_{false};

  AbortState abort_state_;
  std::unique_ptr<ControlConnection> control_;
  std::atomic<bool> has_left_{false};
};

}  // namespace busbw
