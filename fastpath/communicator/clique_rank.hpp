#pragma once
// One rank of a clique. A clique is the ranks of a communicator with GPUs that write into each other's memory.
// CliqueRank selects the method of this rank's calls and queues their kernels. Each step of an operation has a tag, a
// number that increases by one and marks the data of the step (schedule/schedule.hpp). Kernels write their tags to
// scratch memory, which shows the steps that have run.
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

/// One rank of a clique. Used by one thread at a time, like a communicator. Any thread may call abort() and then
/// drain_windows().
class CliqueRank {
 public:
  /// `reservation` is the budget reservation for `scratch`.
  CliqueRank(int rank, int ranks, int device, ScratchBudget::Reservation reservation, std::unique_ptr<Scratch> scratch,
             std::shared_ptr<const MethodSelector> selector)
      : rank_(rank),
        ranks_(ranks),
        device_(device),
        reservation_(std::move(reservation)),
        scratch_(std::move(scratch)),
        selector_(std::move(selector)),
        last_tag_(scratch_->tags_begin()) {}

  /// Calls wait(). If wait() fails or cannot wait for some graphs, waits for the whole device. Does not wait if the
  /// communicator is aborted.
  ~CliqueRank();
  CliqueRank(const CliqueRank&) = delete;
  CliqueRank& operator=(const CliqueRank&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  int device() const { return device_; }
  /// Random number that identifies the communicator, the same on every rank. It is the random start of the tags.
  std::uint64_t id() const { return scratch_->tags_begin(); }
  /// Size of the rank's scratch memory.
  std::size_t bytes() const { return reservation_.bytes(); }

  /// Returns the method of a call, the same on every rank. The method is `nccl` if the fast path cannot run the call or
  /// the settings or the table delegate it (stages of the selection: method_selector.hpp).
  MethodConfig select_config_for_call(const CollectiveCall& call) const noexcept;
  /// True if the results of this collective must be verified.
  bool verifies(Collective collective) const noexcept { return selector_->mode(collective) == Mode::verify; }

  /// Symmetric windows that the program has registered for this communicator.
  Windows& windows() { return windows_; }

  /// Queues an operation on `stream`. It runs after all earlier operations of this communicator on any stream. Throws
  /// EnvironmentError if CUDA cannot create or record the event that orders graphs.
  cudaError_t enqueue(const CollectiveCall& call, const MethodConfig& config, cudaStream_t stream);
  /// Begin and end a unit of work. The unit is all work that is queued or captured on `stream` between the two calls;
  /// enqueue() may be called in between. The unit has one place in the order of the communicator's operations.
  /// begin_ordered_unit() throws EnvironmentError if CUDA cannot create or record the event that orders graphs.
  cudaError_t begin_ordered_unit(cudaStream_t stream);
  cudaError_t end_ordered_unit(cudaStream_t stream);

  /// Waits until all queued operations outside of graphs have run, and all launched graphs with an order event
  /// (graph_order.hpp). Returns at once if the communicator is aborted.
  cudaError_t wait() const noexcept;
  /// Waits, for about two seconds at most, until the kernels of an aborted communicator no longer use its windows. Call
  /// it before the windows are freed.
  void drain_windows() noexcept;

  void abort() noexcept { scratch_->abort(); }
  bool is_aborted() const noexcept { return scratch_->is_aborted(); }

 private:
  /// Returns the operation of a call. Nothing if `direct` was selected but its windows have been removed since then.
  std::optional<Operation> build_operation(const CollectiveCall& call, const MethodConfig& config) const;
  cudaError_t begin_operation(cudaStream_t stream, bool captured);
  cudaError_t end_operation(cudaStream_t stream, bool captured);
  /// Returns the callback with which GraphOrder queues a wait for all earlier calls outside of graphs.
  GraphOrder::QueueWaitForCalls make_call_wait_callback() const;
  /// Launches an operation outside of graphs. On a new stream, it first waits for the operations on other streams.
  cudaError_t launch_call(const Operation& operation, cudaStream_t stream);
  /// Waits on the host until all calls outside of graphs have run. Uses a kernel on a new stream, because the streams
  /// of the calls may have been destroyed.
  cudaError_t wait_for_calls() const noexcept;
  cudaError_t launch_wait_for_calls(cudaStream_t stream) const noexcept;
  std::uint64_t last_tag() const noexcept { return last_tag_.load(std::memory_order_acquire); }
  /// True if a call outside of graphs was ever queued.
  bool has_queued_call() const noexcept { return last_tag() != scratch_->tags_begin(); }

  int rank_;
  int ranks_;
  int device_;
  ScratchBudget::Reservation reservation_;  // declared before scratch_, so that it is released after the memory
  std::unique_ptr<Scratch> scratch_;
  std::shared_ptr<const MethodSelector> selector_;
  Windows windows_;

  // Atomic, because drain_windows() may read these from another thread during a call.
  std::atomic<bool> used_windows_{false};
  std::atomic<std::uint64_t> last_tag_;  // tag of the last step of all calls queued outside of graphs

  unsigned long long last_stream_id_ = 0;  // CUDA's id of the stream of the last call; 0: no call yet
  GraphOrder graph_order_;
};

}  // namespace busbw::fastpath
