#pragma once
// A job whose processes were started apart, on one host or many: they meet in process 0's store.
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "rendezvous/job.hpp"
#include "rendezvous/store_address.hpp"
#include "rendezvous/tcp_server.hpp"
#include "rendezvous/tcp_store.hpp"

namespace busbw {

/// One process's place in such a job.
struct Membership {
  int process = 0;
  int processes = 1;
  int ranks_per_process = 1;
  StoreAddress store;
  std::string token;
  /// How long the others may take to come.
  double join_limit_s = 60;
  /// How long one that has come may take to say what it is (-T).
  double step_limit_s = 600;
  /// How long a process may be silent before it is given up.
  double silence_s = 30;
};

/// Called while the processes come together and agree, in the thread that waits.
struct JoinCallbacks {
  /// A sentence now and then about who is waited for.
  std::function<void(const std::string&)> say;
  /// At least ten times a second; what it throws ends the wait, and the job.
  std::function<void()> look;
};

class LaunchedJob final : public Job {
 public:
  /// Returns when every process has come. Throws Error naming who is missing, what was tried and what to do.
  LaunchedJob(const Membership& membership, JoinCallbacks callbacks);
  ~LaunchedJob() override;

  int ranks() const override { return membership_.processes * membership_.ranks_per_process; }
  std::unique_ptr<Team> team(int rank) override;
  void abort(Exit exit, const std::string& message) noexcept override;
  bool aborted() const noexcept override { return aborted_.load(std::memory_order_acquire); }
  std::optional<Failure> failure() const override;
  RankProgress progress(int rank) const override;
  std::string rank_name(int rank) const override;
  std::string told_by(int rank, const std::string& sentence) const override;
  bool watches_all_ranks() const override { return server_ != nullptr; }

  /// What process 0 decides once it has every process's words, at every process. Each process calls it as often, before
  /// its ranks are started. An error that `decide` throws aborts the job, at all processes.
  Bytes agree(const Bytes& words, const std::function<Bytes(const std::vector<Bytes>&)>& decide);
  /// Where this process reached the store: "10.0.0.1:4711".
  const std::string& store_reached_at() const { return reached_at_; }
  /// To be called when this process's ranks have ended and its output is complete: process 0 waits for the others.
  void leave() noexcept;

 private:
  struct Rank {
    std::atomic<int> phase{0};
    std::atomic<std::uint64_t> steps{0};
    std::atomic<std::uint64_t> operations{0};
    std::atomic<std::uint64_t> operation_bytes{0};
  };

  void serve();
  void wait_for_all();
  TcpChannel connect(bool is_process);
  std::vector<Endpoint> endpoints(std::string& why);
  void keep_in_touch() noexcept;
  void talk_to_store();
  void note(const Failure& why) noexcept;
  void lose_store(const std::string& how) noexcept;
  bool is_mine(int rank) const { return rank / membership_.ranks_per_process == membership_.process; }
  std::unique_ptr<TcpStore> new_store();

  Membership membership_;
  JoinCallbacks callbacks_;
  std::unique_ptr<class FileStore> folder_;  // BUSBW_RENDEZVOUS=file:...
  std::unique_ptr<TcpServer> server_;        // in process 0
  Endpoint own_endpoint_;                    // of the server, from process 0
  std::string reached_at_;
  std::string first_host_;                   // of process 0
  std::vector<Rank> own_ranks_;
  std::vector<std::unique_ptr<TcpStore>> stores_;  // one a rank of this process
  std::unique_ptr<Team> processes_;                // what `agree` uses, over the first of them
  std::atomic<bool> agrees_{true};                 // until the ranks are started

  std::atomic<bool> aborted_{false};
  std::atomic<bool> hears_nothing_{false};  // from process 0, over this process's own connection
  mutable std::mutex mutex_;  // of what follows
  std::optional<Failure> failure_;
  bool tell_ = false;  // the failure began here

  std::unique_ptr<TcpChannel> control_;  // the thread's own
  std::atomic<bool> leaves_{false};
  std::thread thread_;
};

}  // namespace busbw
