#pragma once
// BUSBW_FASTPATH=verify: the inputs of all ranks are gathered by the real NCCL, which moves them bit for bit; a simple
// kernel works out the results from them; and they must be the fast path's, bit for bit.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fastpath/choice/operation.hpp"
#include "fastpath/nccl/real_nccl.hpp"

namespace busbw::fastpath {

/// What the check of one operation needs.
struct CheckArguments {
  CollectiveCall call;
  int rank = 0;
  int ranks = 1;
  const char* inputs = nullptr;  ///< of all ranks, one after the other; of a broadcast the root's
};

/// What was found so far, in the host's memory: elements that differ, and the first one's place in its buffer plus 1.
struct CheckFindings {
  unsigned long long wrong = 0;
  unsigned long long first = 0;
};

/// Loads the checks' kernels onto the current device, for the same reason as preload() in launch.hpp.
void preload_checks();

/// Queues the check of a result.
cudaError_t launch_check(const CheckArguments& expected, CheckFindings* findings, cudaStream_t stream);

/// Of one communicator on one rank.
class Verifier {
 public:
  Verifier(ncclComm_t communicator, int rank, int ranks, int device);
  ~Verifier();
  Verifier(const Verifier&) = delete;
  Verifier& operator=(const Verifier&) = delete;

  /// Before anything of this call: the room for inputs is one, so calls on several streams wait for each other's
  /// checks.
  cudaError_t begin(cudaStream_t stream);
  /// Queues the gathering of the inputs, before the operation; within a group where there is one.
  ncclResult_t gather(const RealNccl& nccl, const CollectiveCall& call, cudaStream_t stream);
  /// Queues the check, behind the operation whose inputs were gathered last.
  cudaError_t check(const CollectiveCall& call, cudaStream_t stream);

  /// Until all checks have run, but for those in graphs, which the order of graphs holds.
  cudaError_t wait() const noexcept;

  /// A sentence on what was wrong since the last time; empty where nothing was, as far as checks have run.
  std::string take_findings_message();
  bool found_wrong() const;

 private:
  struct HostMemoryDeleter {
    void operator()(CheckFindings* memory) const { cudaFreeHost(memory); }
  };

  /// Memory for the inputs of the next operation on this stream, `inputs_` from now on.
  char* room_for(std::size_t bytes, cudaStream_t stream);

  ncclComm_t communicator_;
  int rank_;
  int ranks_;
  int device_;
  cudaEvent_t checked_ = nullptr;  // the last check of a call that is not in a graph
  std::unique_ptr<CheckFindings, HostMemoryDeleter> findings_;
  unsigned long long reported_ = 0;
  // A captured operation has memory of its own, since nobody knows when it will be replayed. Calls share some, in
  // turns; what was too small stays, as it may be in use.
  std::vector<void*> buffers_;
  char* inputs_ = nullptr;  // of the operation whose inputs were gathered last
  char* shared_ = nullptr;
  std::size_t shared_bytes_ = 0;
};

}  // namespace busbw::fastpath
