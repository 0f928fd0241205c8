#pragma once
// Registry of this process's communicators that have a fast path. The exported NCCL functions look up the fast path of
// an ncclComm_t here, in every call, and add and remove communicators.
#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "fastpath/communicator/clique_rank.hpp"
#include "fastpath/communicator/gather_buffer_pool.hpp"
#include "fastpath/nccl/real_nccl.hpp"
#include "fastpath/peers/scratch_budget.hpp"
#include "fastpath/verify/verifier.hpp"

namespace busbw::fastpath {

/// The fast path of a communicator. Keep a shared_ptr to use it after the current NCCL call.
struct FastCommunicator : std::enable_shared_from_this<FastCommunicator> {
  std::shared_ptr<CliqueRank> clique;
  std::unique_ptr<Verifier> verifier;  // null unless a collective is in mode `verify`

  FastCommunicator() = default;
  /// Waits for queued operations and their checks, and reports wrong elements. Does not run for an aborted
  /// communicator, because the registry keeps it until the process ends.
  ~FastCommunicator();
  FastCommunicator(const FastCommunicator&) = delete;
  FastCommunicator& operator=(const FastCommunicator&) = delete;

  /// Waits until all queued operations have run and are checked, for ncclCommFinalize. Returns early if the
  /// communicator is aborted.
  ncclResult_t finish() noexcept;
  /// Prints how many wrong elements finished checks have found since the previous report. Prints nothing if none.
  void report_mismatches();
};

/// Registry of the process. Thread-safe. Never destroyed, because threads may call NCCL until the process exits.
class CommunicatorRegistry {
 public:
  static CommunicatorRegistry& instance();

  /// Returns the fast path of a communicator. Null if it has none. A thread finds its recent communicators in a cache
  /// of its own, without a lock.
  FastCommunicator* find(ncclComm_t communicator) noexcept;

  /// Adds new communicators that are ready, and sets up their fast paths. Collective over their ranks.
  ncclResult_t add(const std::vector<ncclComm_t>& communicators, const RealNccl& nccl) noexcept;
  /// True if the communicator was added, with or without a fast path. False if it was created as non-blocking: then
  /// communicators that are split from it are not ready when ncclCommSplit returns.
  bool was_added(ncclComm_t communicator);
  /// Removes a communicator that is about to be destroyed, and returns its fast path. Null if it has none. The fast
  /// path's memory is released with the returned object, unless the communicator was aborted.
  std::shared_ptr<FastCommunicator> remove(ncclComm_t communicator) noexcept;

 private:
  CommunicatorRegistry();
  /// Returns the selector for GPUs of this major compute capability and number of multiprocessors. Prints an invalid
  /// table's error to stderr and then delegates every call to NCCL.
  std::shared_ptr<const MethodSelector> selector_for_gpu(int capability_major, int multiprocessors);

  ScratchBudget budget_;
  ScratchPool pool_;
  GatherBufferPool gather_buffers_;
  Nvml nvml_;
  std::mutex mutex_;
  std::unordered_map<ncclComm_t, std::shared_ptr<FastCommunicator>> fast_communicators_;
  std::unordered_set<ncclComm_t> added_;                    // with or without a fast path
  std::vector<std::shared_ptr<FastCommunicator>> aborted_;  // kept, because a thread may still be in one of their calls
  std::map<std::pair<int, int>, std::shared_ptr<const MethodSelector>>
      selectors_;  // by compute capability and multiprocessors
  std::atomic<std::uint64_t> change_count_{0};  // of fast_communicators_; a thread clears its cache after a change
};

}  // namespace busbw::fastpath
