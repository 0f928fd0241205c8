#pragma once
// A team of threads over plain memory, for tests that need a Team but no processes.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "common/support/error.hpp"
#include "rendezvous/team/team.hpp"

namespace busbw {

class ThreadTeam final : public Team {
 public:
  /// Makes a team of `size` members, one for each thread.
  static std::vector<std::unique_ptr<ThreadTeam>> make(int size) {
    auto job = std::make_shared<Job>();
    auto shared = std::make_shared<Shared>(job, size);
    std::vector<std::unique_ptr<ThreadTeam>> members;
    for (int rank = 0; rank < size; ++rank) members.push_back(std::make_unique<ThreadTeam>(shared, rank));
    return members;
  }

  int rank() const override { return rank_; }
  int size() const override { return shared_->size; }

  void barrier() override {
    Job& job = *shared_->job;
    std::unique_lock lock(job.mutex);
    if (job.aborted) throw JobAborted{};
    const std::size_t generation = shared_->generation;
    if (++shared_->arrived == shared_->size) {
      shared_->arrived = 0;
      ++shared_->generation;
      job.changed.notify_all();
      return;
    }
    job.changed.wait(lock, [&] { return shared_->generation != generation || job.aborted; });
    if (shared_->generation == generation) throw JobAborted{};
  }

  std::vector<Bytes> gather(std::span<const std::byte> mine) override {
    put(mine);
    std::vector<Bytes> all;
    if (rank_ == 0) all = shared_->slots;
    barrier();
    return all;
  }

  Bytes broadcast(std::span<const std::byte> from_first) override {
    put(from_first);
    Bytes first = shared_->slots[0];
    barrier();
    return first;
  }

  std::unique_ptr<Team> split(int color) override {
    const auto bytes = std::as_bytes(std::span(&color, 1));
    put(bytes);
    int new_rank = 0;
    int new_size = 0;
    for (int peer = 0; peer < size(); ++peer) {
      const Bytes& theirs = shared_->slots[static_cast<std::size_t>(peer)];
      if (!std::equal(bytes.begin(), bytes.end(), theirs.begin(), theirs.end())) continue;
      if (peer < rank_) ++new_rank;
      ++new_size;
    }
    std::shared_ptr<Shared> group;
    {
      const std::lock_guard lock(shared_->job->mutex);
      std::shared_ptr<Shared>& found = shared_->groups[color];
      if (!found) found = std::make_shared<Shared>(shared_->job, new_size);
      group = found;
    }
    barrier();
    if (rank_ == 0) shared_->groups.clear();
    barrier();
    return std::make_unique<ThreadTeam>(group, new_rank);
  }

  /// Reads without the lock and relaxed. Waiting ranks poll it all the time, and synchronization here would hide races
  /// from ThreadSanitizer.
  bool aborted() const override { return shared_->job->aborted.load(std::memory_order_relaxed); }

  void enter(Phase) override {}
  IssuedOperations& issued() override { return issued_; }

  /// Ends every wait in every team of the job with JobAborted.
  void abort() {
    const std::lock_guard lock(shared_->job->mutex);
    shared_->job->aborted = true;
    shared_->job->changed.notify_all();
  }

 private:
  struct Job {
    std::mutex mutex;
    std::condition_variable changed;
    std::atomic<bool> aborted = false;
  };
  struct Shared {
    Shared(std::shared_ptr<Job> owner_job, int members) : job(std::move(owner_job)), size(members), slots(members) {}
    std::shared_ptr<Job> job;
    int size;
    int arrived = 0;
    std::size_t generation = 0;
    std::vector<Bytes> slots;
    std::map<int, std::shared_ptr<Shared>> groups;
  };

 public:
  /// Only for make and split.
  ThreadTeam(std::shared_ptr<Shared> shared, int rank) : shared_(std::move(shared)), rank_(rank) {}

 private:
  /// Publishes `mine` to all members. The caller reads and then calls barrier.
  void put(std::span<const std::byte> mine) {
    shared_->slots[static_cast<std::size_t>(rank_)].assign(mine.begin(), mine.end());
    barrier();
  }

  std::shared_ptr<Shared> shared_;
  int rank_;
  IssuedOperations issued_;
};

/// Forwards to another team. Tests derive from it to watch or change single calls.
class TeamLike : public Team {
 public:
  explicit TeamLike(Team& team) : team_(team) {}
  int rank() const override { return team_.rank(); }
  int size() const override { return team_.size(); }
  void barrier() override { team_.barrier(); }
  std::vector<Bytes> gather(std::span<const std::byte> mine) override { return team_.gather(mine); }
  Bytes broadcast(std::span<const std::byte> from_first) override { return team_.broadcast(from_first); }
  std::unique_ptr<Team> split(int color) override { return team_.split(color); }
  bool aborted() const override { return team_.aborted(); }
  void enter(Phase phase) override { team_.enter(phase); }
  IssuedOperations& issued() override { return team_.issued(); }

 private:
  Team& team_;
};

}  // namespace busbw
