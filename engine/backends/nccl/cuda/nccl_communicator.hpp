#pragma once
// One rank's handle to one NCCL communicator, on one GPU: the NCCL backend's implementation of Communicator.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "backends/nccl/cuda/cuda.hpp"
#include "backends/nccl/cuda/cuda_gate.hpp"
#include "backends/nccl/cuda/device_comm.hpp"
#include "backends/nccl/cuda/memory_tracker.hpp"
#include "backends/nccl/cuda/nccl_buffers.hpp"
#include "backends/nccl/cuda/nccl_comm.hpp"
#include "backends/nccl/cuda/nccl_issuer.hpp"
#include "backends/nccl/launch_group.hpp"
#include "backends/nccl/profiler/algorithm_observer.hpp"
#include "common/libraries/nvml.hpp"

namespace busbw {

class NcclCommunicator;

/// Settings of one rank from the backend.
struct NcclRankConfig {
  Device device;
  std::size_t buffer_bytes = 0;
  bool null_stream = false;  // -y
  bool gate_enabled = true;  // false if launches block on any rank, so that a gate would deadlock
  NcclOptions flags;
  bool is_single_machine = true;  // the communicator has only ranks of this process and its forks
  LaunchGroup* launch_group = nullptr;  // null: the rank issues its operations itself
  int group_index = 0;  // position in the launch group
  std::optional<NvmlGpu> nvml;  // none if NVML is absent
  NcclCommunicator* first = nullptr;  // the rank's communicator that owns the buffers; null: the new one owns them
  LiveCommunicators* live_communicators = nullptr;  // owned by the backend
  AlgorithmObserver* algorithm_observer = nullptr;  // owned by the backend; null: algorithms stay unknown
};

/// Use it in the thread that created it, with the rank's GPU as current device. Another thread must call
/// use_in_this_thread first. Operations go through the rank's launch group. Filling and comparing are not timed and run
/// in this thread. Failing calls throw EnvironmentError with NCCL's or CUDA's error text. Waits throw JobAborted if the
/// job is aborted.
class NcclCommunicator final : public Communicator, private Timestamps, private Gate {
 public:
  /// Allocates both buffers, or shares those of `rank_config.first`, and joins `group` with NCCL. All arguments except
  /// `rank_config` must outlive this.
  NcclCommunicator(const NcclLibrary& library, Team& world, Team& group, const NcclRankConfig& rank_config);
  ~NcclCommunicator() override;
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  std::span<std::byte> send_buffer() override { return send_->span(); }
  std::span<std::byte> recv_buffer() override { return recv_->span(); }

  void all_reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, Redop redop) override {
    submit(IssueRequest::Kind::all_reduce, send, recv, count, dtype, redop);
  }
  void reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, Redop redop, int root) override {
    submit(IssueRequest::Kind::reduce, send, recv, count, dtype, redop, root);
  }
  void reduce_scatter(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, Redop redop) override {
    submit(IssueRequest::Kind::reduce_scatter, send, recv, count, dtype, redop);
  }
  void all_gather(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype) override {
    submit(IssueRequest::Kind::all_gather, send, recv, count, dtype);
  }
  void broadcast(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, int root) override {
    submit(IssueRequest::Kind::broadcast, send, recv, count, dtype, Redop::sum, root);
  }
  void gather(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, int root) override {
    submit(IssueRequest::Kind::gather, send, recv, count, dtype, Redop::sum, root);
  }
  void scatter(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, int root) override {
    submit(IssueRequest::Kind::scatter, send, recv, count, dtype, Redop::sum, root);
  }
  void alltoall(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype) override {
    submit(IssueRequest::Kind::alltoall, send, recv, count, dtype);
  }
  void exchange(std::span<const Transfer> sends, std::span<const Transfer> recvs, Dtype) override;
  bool give_up_peers_after(double limit_s) override;
  std::vector<std::pair<int, std::string>> failed_peers() const override {
    return {issuer_.failed_peers().begin(), issuer_.failed_peers().end()};
  }
  ConnectionProblem reconnect(Team& living) override;
  std::optional<PutObstacle> put_obstacle() const override;
  void put(std::span<const Put> puts, std::span<const AwaitedPut> awaited, Dtype) override;
  void delay(double seconds, bool overlapped) override;
  void wait_for(Communicator& other) override;
  void compute_matrix_square(float* product, const float* matrix, std::size_t order) override;
  void use_in_this_thread() override;
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override;
  void begin_group() override { submit(IssueRequest::Kind::begin_nccl_group); }
  void end_group() override { submit(IssueRequest::Kind::end_nccl_group); }
  void flush() override { member_.flush(); }
  void synchronize() override;
  Timestamps* timestamps() override { return this; }
  std::optional<DeviceClockState> clock_state() override {
    if (!nvml_) return std::nullopt;
    return DeviceClockState{nvml_->clock_hz(), nvml_->max_clock_hz(), nvml_->throttle_reasons()};
  }
  std::optional<MemoryUse> memory() override { return memory_.use(); }
  Gate* gate() override { return gate_enabled_ ? this : nullptr; }
  /// The null stream cannot be captured.
  bool can_capture() const override { return !stream_.is_null(); }
  void begin_capture() override { submit(IssueRequest::Kind::begin_capture); }
  std::unique_ptr<OperationGraph> end_capture() override;
  void begin_observation() override {
    if (algorithm_observer_) algorithm_observer_->begin(this, send_->span(), recv_->span());
  }
  std::vector<AlgorithmChoice> end_observation() override {
    return algorithm_observer_ ? algorithm_observer_->end(this) : std::vector<AlgorithmChoice>();
  }

  void fill(std::byte* address, const DataStream& stream, std::uint64_t first, std::size_t elements) override;
  void compare(const std::byte* address, const DataStream& stream, std::uint64_t first, std::size_t elements,
               std::uint64_t index_base, Mismatches&) override;

 private:
  class CapturedGraph;

  void reset(std::size_t count) override;
  void set(std::size_t index) override { submit(IssueRequest::Kind::record_timestamp, index); }
  double seconds_between(std::size_t from, std::size_t to) const override;

  void close() override { submit(IssueRequest::Kind::close_gate, ++closings_); }
  void open() override { gate_.open(closings_); }
  std::size_t capacity() const override;

  /// Submits a request without data. `number` becomes IssueRequest::count; its meaning depends on the kind.
  void submit(IssueRequest::Kind kind, std::size_t number = 0);
  void submit(IssueRequest::Kind kind, const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype,
              Redop redop = Redop::sum, int root = 0);
  // Steps of joining, in this order.
  NcclComm join(const NcclLibrary& library, const NcclRankConfig& rank_config);
  std::unique_ptr<NcclRegistration> register_buffers(const NcclLibrary& library, const NcclOptions& flags);
  std::unique_ptr<DeviceComm> make_device_comm(const NcclLibrary& library, const NcclOptions& flags);
  /// Steps of `compare`. The device counts differing words (`launch_compare`). Each has one or more wrong elements, so
  /// the count is at most that of wrong elements.
  std::uint64_t count_differing_words(const std::byte* address, const DataStream& stream, std::uint64_t first,
                                      std::size_t elements);
  void find_mismatches_on_host(const std::byte* address, const DataStream& stream, std::uint64_t first,
                               std::size_t elements, std::uint64_t index_base, Mismatches& mismatches);
  /// Returns the address of the tile's copy on the device. Copies the tile at its first use.
  const unsigned char* copy_tile_to_device(const Tile& tile);

  Team& world_;
  Team& group_;
  std::string rank_text_;
  int device_;
  bool is_single_machine_;
  NcclOptions flags_;
  double peer_limit_s_ = 0;  // of give_up_peers_after
  bool gate_enabled_;
  AlgorithmObserver* algorithm_observer_;  // null: none
  std::optional<NvmlGpu> nvml_;
  MemoryTracker memory_;
  std::shared_ptr<NcclBuffer> send_;  // communicators of a rank share them
  std::shared_ptr<NcclBuffer> recv_;
  DeviceMemory differing_words_;        // counter of `compare`
  DeviceMemory delay_end_;              // end of the last delay, by the GPU's global timer
  std::map<Tile, DeviceMemory> tiles_;  // copies of tiles on the device
  CudaStream stream_;
  CudaEvent progress_;             // the last point of this stream that another communicator waits for
  std::vector<CudaEvent> events_;  // timestamps, kept for the next batch
  CudaGate gate_;
  std::uint64_t closings_ = 0;  // number of the gate's last closing
  NcclComm comm_;
  std::unique_ptr<NcclRegistration> registration_;  // with -R
  std::unique_ptr<DeviceComm> device_comm_;         // with -D
  NcclIssuer issuer_;
  std::unique_ptr<LaunchGroup> own_launch_group_;  // unless the backend has one
  LaunchGroup::Member member_;  // must be destroyed first: until then the issuer may be in use
};

}  // namespace busbw
