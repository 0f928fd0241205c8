#pragma once
// A job whose processes were started apart, on one host or many: they meet in process 0's store.
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "rendezvous/rendezvous_point.hpp"
#include "rendezvous/store/tcp_store.hpp"
#include "rendezvous/store/tcp_store_server.hpp"
#include "rendezvous/team/job.hpp"

namespace busbw {

class LaunchedJob final : public Job {
 public:
  /// Returns when every process has come. Throws Error naming who is missing, what was tried and what to do.
  LaunchedJob(const Membership& membership, JoinCallbacks callbacks);
  ~LaunchedJob() override;

  int ranks() const override { return membership_.processes * membership_.ranks_per_process; }
  std::unique_ptr<Team> team(int rank) override;
  void abort(ExitCode exit, const std::string& message) noexcept override;
  bool aborted() const noexcept override { return aborted_.load(std::memory_order_acquire); }
  std::optional<Failure> failure() const override;
  RankProgress progress(int rank) const override;
  std::string rank_name(int rank) const override;
  std::string with_rank_name(int rank, const std::string& sentence) const override;
  bool watches_all_ranks() const override { return server_ != nullptr; }

  /// What process 0 decides once it has every process's words, at every process. Each process calls it as often, before
  /// its ranks are started. An error that `decide` throws aborts the job, at all processes.
  Bytes agree(const Bytes& words, const std::function<Bytes(const std::vector<Bytes>&)>& decide);
  /// While `error` is handled, of which `told` is to be said: the job ends for it, unless another process was the
  /// first. Throws what all processes end with: `error` again, or that one's reason.
  [[noreturn]] void fail_with(const std::exception& error, const std::string& told);
  /// Where this process reached the store: "10.0.0.1:4711".
  const std::string& store_reached_at() const { return reached_at_; }
  /// To be called when this process's ranks have ended and its output is complete: process 0 waits for the others.
  void leave() noexcept;

 private:
  /// On a line of its own: each is written by one rank's thread all the time.
  struct alignas(64) Rank {
    std::atomic<int> phase{0};
    std::atomic<std::uint64_t> steps{0};
    IssuedOperations issued;
  };

  void serve();
  void tick_while_joining();
  void wait_for_all();
  bool others_may_come() const;
  void run_control_thread() noexcept;
  void exchange_control_frames();
  void record_failure(const Failure& why) noexcept;
  void close_control() noexcept;
  void on_store_lost(const std::string& how) noexcept;
  bool is_mine(int rank) const { return rank / membership_.ranks_per_process == membership_.process; }
  std::unique_ptr<TcpStore> new_store();

  Membership membership_;
  JoinCallbacks callbacks_;
  RendezvousPoint meeting_;
  std::unique_ptr<TcpStoreServer> server_;  // in process 0
  std::string reached_at_;
  std::string first_host_;  // of process 0
  std::vector<Rank> own_ranks_;
  std::vector<std::unique_ptr<TcpStore>> stores_;  // one a rank of this process
  std::unique_ptr<Team> processes_;                // what `agree` uses, over the first of them
  std::atomic<bool> agrees_{true};                 // until the ranks are started

  std::atomic<bool> aborted_{false};
  std::atomic<bool> control_is_silent_{false};  // from process 0, over this process's own connection
  mutable std::mutex mutex_;  // of what follows
  mutable std::condition_variable heard_;
  std::optional<Failure> failure_;
  bool reports_failure_ = false;         // the failure began here
  bool is_proposed_ = false;  // and the store has not said yet that no other one came first
  bool is_in_touch_ = false;  // the thread talks to the store

  std::unique_ptr<TcpChannel> control_;  // the thread's own
  std::atomic<bool> leaves_{false};
  std::thread thread_;
};

}  // namespace busbw
