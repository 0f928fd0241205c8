#pragma once
// The communicators of this process that are in use, so that a thread that is none of theirs can ask NCCL about them
// while they hang.
#include <nccl.h>

#include <map>
#include <mutex>

namespace busbw {

/// Each communicator is in here from its making until just before its end; both wait while somebody asks.
class LiveCommunicators {
 public:
  void add(int rank, ncclComm_t communicator) {
    const std::scoped_lock lock(mutex_);
    by_rank_[rank] = communicator;
  }
  void remove(int rank) {
    const std::scoped_lock lock(mutex_);
    by_rank_.erase(rank);
  }
  /// Calls `ask` with each rank of the job and its communicator.
  template <class Ask>
  void for_each(Ask ask) const {
    const std::scoped_lock lock(mutex_);
    for (const auto& [rank, communicator] : by_rank_) ask(rank, communicator);
  }

 private:
  mutable std::mutex mutex_;
  std::map<int, ncclComm_t> by_rank_;
};

}  // namespace busbw
