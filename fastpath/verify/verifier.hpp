#pragma once
// Verification for BUSBW_FASTPATH=verify. The real NCCL gathers the inputs of all ranks unchanged. A simple kernel
// computes the results from them and compares these with the fast path's results, bit for bit.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fastpath/choice/operation.hpp"
#include "fastpath/nccl/real_nccl.hpp"
#include "fastpath/verify/mismatch_counts.hpp"

namespace busbw::fastpath {

/// Arguments of a check's kernel: the checked operation and its inputs.
struct CheckArguments {
  CollectiveCall call;
  int ranks = 1;
  bool reduces = false;
  /// Number of ranks that supply data of the result. Used only if `reduces` is false.
  int source_ranks = 1;
  /// Input of the first rank that supplies data of this rank's result: of rank 0, or of the root in a broadcast.
  const char* inputs = nullptr;
  std::size_t stride = 0;  ///< bytes from the input of one rank to the input of the next rank
};

/// Loads the kernels of the checks onto the current device, for the same reason as preload_kernels() in launch.hpp.
void preload_check_kernels();

/// Queues the check of a result.
cudaError_t launch_check(const CheckArguments& arguments, MismatchCounts* mismatches, cudaStream_t stream);

/// Verifier of one communicator on one rank.
class Verifier {
 public:
  /// `device` is the CUDA device of this rank. Throws EnvironmentError.
  Verifier(ncclComm_t communicator, int rank, int ranks, int device);
  ~Verifier();
  Verifier(const Verifier&) = delete;
  Verifier& operator=(const Verifier&) = delete;

  /// Queues a wait for the check of the previous call. Call it before other work of a call, because calls on different
  /// streams share the buffer for inputs.
  cudaError_t queue_wait_for_previous_check(cudaStream_t stream);
  /// Queues the gather of all ranks' inputs. Call it before the operation, because an operation in place overwrites its
  /// input. If the caller opens an NCCL group for several gathers, call it within that group.
  ncclResult_t queue_gather(const RealNccl& nccl, const CollectiveCall& call, cudaStream_t stream);
  /// Queues the check of the operation for which queue_gather() was called last. Call it after the operation.
  cudaError_t queue_check(const CollectiveCall& call, cudaStream_t stream);

  /// Waits until the checks of all calls outside of graphs have run. GraphOrder::wait() covers the checks in graphs.
  cudaError_t wait() const noexcept;

  /// Returns a message about wrong elements since the previous call. Empty if the finished checks have found none.
  std::string take_mismatch_message() {
    return fastpath::take_mismatch_message(*mismatches_, reported_count_, rank_, ranks_);
  }
  /// True if a finished check has ever found a wrong element.
  bool has_found_wrong() const;

 private:
  struct HostMemoryDeleter {
    void operator()(MismatchCounts* memory) const { cudaFreeHost(memory); }
  };

  /// Allocates or reuses memory for the inputs of the next operation on this stream. Sets and returns `inputs_`.
  char* reserve_inputs(std::size_t bytes, cudaStream_t stream);

  ncclComm_t communicator_;
  int rank_;
  int ranks_;
  int device_;
  cudaEvent_t checked_ = nullptr;  // recorded after each check of a call outside of graphs
  std::unique_ptr<MismatchCounts, HostMemoryDeleter> mismatches_;
  unsigned long long reported_count_ = 0;  // number of wrong elements in earlier messages
  // All buffers for inputs. A captured operation has its own buffer, because the time of its replay is unknown. Calls
  // outside of graphs share one buffer. A call that needs more memory allocates a new shared buffer. The old buffer
  // stays allocated, because a check may still read it.
  std::vector<void*> buffers_;
  char* inputs_ = nullptr;  // buffer of the operation for which queue_gather() was called last
  char* shared_buffer_ = nullptr;  // of the calls outside of graphs
  std::size_t shared_buffer_bytes_ = 0;
};

}  // namespace busbw::fastpath
