#pragma once
// One rank of a communicator whose ranks write into each other's memory: it queues their operations in an order on
// which all ranks agree.
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "fastpath/choice/method_selector.hpp"
#include "fastpath/choice/operation.hpp"
#include "fastpath/communicator/graph_order.hpp"
#include "fastpath/communicator/scratch.hpp"
#include "fastpath/peers/scratch_budget.hpp"
#include "fastpath/peers/windows.hpp"

namespace busbw::fastpath {

/// Used by one thread at a time, as a communicator is; abort() and then leave_windows() may come from any.
class CliqueRank {
 public:
  /// `share` is that of the scratch memory.
  CliqueRank(int rank, int ranks, int device, ScratchBudget::Reservation share, std::unique_ptr<Scratch> scratch,
         std::shared_ptr<const MethodSelector> choices)
      : rank_(rank),
        ranks_(ranks),
        device_(device),
        share_(std::move(share)),
        scratch_(std::move(scratch)),
        choices_(std::move(choices)),
        last_tag_(scratch_->tags_begin()) {}

  /// Waits, too, and for whatever runs on the GPU where graphs may run of which nobody knows.
  ~CliqueRank();
  CliqueRank(const CliqueRank&) = delete;
  CliqueRank& operator=(const CliqueRank&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  int device() const { return device_; }
  /// The same on every rank, and of this communicator alone.
  std::uint64_t id() const { return scratch_->tags_begin(); }
  /// Of scratch memory.
  std::size_t bytes() const { return share_.bytes(); }

  /// How this call is to be done, the same on every rank; handed_over where it can't be done here.
  MethodConfig choose(const CollectiveCall& call) const noexcept;
  /// Whether this collective's results are to be checked.
  bool verifies(Collective collective) const noexcept { return choices_->mode(collective) == Mode::verify; }

  /// Those of this communicator that the program has registered.
  Windows& windows() { return windows_; }

  /// Queues an operation behind everything that was queued for this communicator before, on whatever stream.
  cudaError_t enqueue(const CollectiveCall& call, const MethodConfig& choice, cudaStream_t stream);
  /// What is queued or captured on a stream between these two has its place in the order of calls and graphs, and so
  /// has from then on whatever queue() queues. These may stand around it. Throws EnvironmentError.
  cudaError_t begin_ordered(cudaStream_t stream);
  cudaError_t end_ordered(cudaStream_t stream);

  /// Until all that was queued has run, unless it was aborted; graphs that do not take turns (captured.hpp) are not
  /// waited for.
  cudaError_t wait() const noexcept;
  /// Of an aborted one, before its windows go: waits, though not for ever, until kernels that may use them have left.
  void drain_windows() noexcept;

  void abort() noexcept { scratch_->abort(); }
  bool is_aborted() const noexcept { return scratch_->is_aborted(); }

 private:
  /// Empty where a direct one has lost its windows since it was chosen.
  std::optional<Operation> operation(const CollectiveCall& call, const MethodConfig& choice) const;
  cudaError_t begin(cudaStream_t stream, bool captured);
  cudaError_t end(cudaStream_t stream, bool captured);
  GraphOrder::QueueAfterCalls behind_calls() const;
  cudaError_t launch_call(const Operation& operation, cudaStream_t stream);
  /// By a kernel of its own, since the streams that they were queued on may be gone.
  cudaError_t wait_for_calls() const noexcept;
  cudaError_t launch_wait_for_calls(cudaStream_t stream) const noexcept;
  std::uint64_t last_tag() const noexcept { return last_tag_.load(std::memory_order_acquire); }
  bool has_calls() const noexcept { return last_tag() != scratch_->tags_begin(); }

  int rank_;
  int ranks_;
  int device_;
  ScratchBudget::Reservation share_;  // given back behind the memory
  std::unique_ptr<Scratch> scratch_;
  std::shared_ptr<const MethodSelector> choices_;
  Windows windows_;

  // Who aborts looks at these while the thread whose communicator it is may be in a call.
  std::atomic<bool> used_windows_{false};
  std::atomic<std::uint64_t> last_tag_;  // of the lane of calls, once all that is queued has run

  unsigned long long last_stream_ = 0;  // CUDA's number of the stream that was used last; 0: none yet
  GraphOrder captured_;
};

}  // namespace busbw::fastpath
