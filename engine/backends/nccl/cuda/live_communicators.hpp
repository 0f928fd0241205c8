#pragma once
// The open communicators of this process. If the ranks hang, a monitoring thread queries NCCL about them
// (Backend::diagnosis).
#include <nccl.h>

#include <map>
#include <mutex>

namespace busbw {

/// Contains each communicator from its creation until just before its destruction. `add` and `remove` wait while
/// `for_each` runs, so that no communicator is destroyed during a query.
class LiveCommunicators {
 public:
  void add(int rank, ncclComm_t communicator) {
    const std::scoped_lock lock(mutex_);
    ranks_[communicator] = rank;
  }
  void remove(ncclComm_t communicator) {
    const std::scoped_lock lock(mutex_);
    ranks_.erase(communicator);
  }
  /// Calls `query` with the job rank and the handle of each communicator.
  template <class Query>
  void for_each(Query query) const {
    const std::scoped_lock lock(mutex_);
    for (const auto& [communicator, rank] : ranks_) query(rank, communicator);
  }

 private:
  mutable std::mutex mutex_;
  std::map<ncclComm_t, int> ranks_;
};

}  // namespace busbw
