#pragma once
// The communicators of this process that have a fast path.
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

/// A communicator that has a fast path. Who holds it until later holds a share of it.
struct FastCommunicator : std::enable_shared_from_this<FastCommunicator> {
  std::shared_ptr<CliqueRank> clique;
  std::unique_ptr<Verifier> verifier;  // null where nothing is verified

  FastCommunicator() = default;
  /// Waits for what was queued and for its checks, and says what these have found. One that was aborted never ends.
  ~FastCommunicator();
  FastCommunicator(const FastCommunicator&) = delete;
  FastCommunicator& operator=(const FastCommunicator&) = delete;

  /// Until all that was queued has run and was checked, unless the communicator was aborted.
  ncclResult_t finish() noexcept;
  /// Says on stderr what checks have found since the last time, as far as they have run.
  void report_findings();
};

/// Lives as long as the process, since threads may call until the very end.
class CommunicatorRegistry {
 public:
  static CommunicatorRegistry& instance();

  /// Null where the communicator has no fast path. Cheap for some dozens that a thread asks for in turns.
  FastCommunicator* find(ncclComm_t communicator) noexcept;

  /// Communicators that were made just now and are ready: collective over their ranks.
  ncclResult_t joined(const std::vector<ncclComm_t>& communicators, const RealNccl& nccl) noexcept;
  /// Whether this communicator was among those, fast or not: others are not ready when the call that makes them
  /// returns, and neither are their children.
  bool has_joined(ncclComm_t communicator);
  /// The communicator is about to end. Its memory goes with what is returned, unless it was aborted.
  std::shared_ptr<FastCommunicator> leave(ncclComm_t communicator) noexcept;

 private:
  CommunicatorRegistry();
  /// Of the table in force for GPUs of this generation and size; one that is wrong is said on stderr, and all is handed
  /// over.
  std::shared_ptr<const MethodSelector> choices(int capability_major, int multiprocessors);

  ScratchBudget budget_;
  ScratchPool pool_;
  GatherBufferPool places_;
  HiddenGpuLinks hidden_gpus_;
  std::mutex mutex_;
  std::unordered_map<ncclComm_t, std::shared_ptr<FastCommunicator>> fast_;
  std::unordered_set<ncclComm_t> joined_;
  std::vector<std::shared_ptr<FastCommunicator>> aborted_;             // a thread may still be in a call of theirs
  std::map<std::pair<int, int>, std::shared_ptr<const MethodSelector>> choices_;  // by the GPUs' generation and size
  std::atomic<std::uint64_t> changes_{0};                  // of fast_
};

}  // namespace busbw::fastpath
