#pragma once
// One rank's membership in one NCCL communicator, on one GPU.
#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "backends/backend.hpp"
#include "backends/nccl/cuda.hpp"
#include "backends/nccl/nccl_library.hpp"
#include "backends/nccl/nvml.hpp"

namespace busbw {

/// CUDA events in one stream.
class EventStamps final : public Stamps {
 public:
  explicit EventStamps(cudaStream_t stream) : stream_(stream) {}
  void reset(std::size_t count) override;
  void set(std::size_t index) override;
  double between_s(std::size_t from, std::size_t to) const override;

 private:
  cudaStream_t stream_;
  std::vector<Event> events_;  // kept for the next batch
};

/// Belongs to the thread that made it, whose current device is the rank's GPU. Every call throws EnvironmentError with
/// NCCL's or CUDA's own words, and `synchronize` throws Aborted once the job is.
class NcclCommunicator final : public Communicator {
 public:
  /// Allocates both buffers and joins `group` under NCCL. `library`, `world` and `group` must outlive this.
  NcclCommunicator(const NcclLibrary& library, Team& world, Team& group, std::size_t buffer_bytes, bool null_stream,
                   std::optional<NvmlGpu> nvml);
  ~NcclCommunicator() override;
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  std::span<std::byte> send_buffer() override { return {send_.data(), send_.size()}; }
  std::span<std::byte> recv_buffer() override { return {recv_.data(), recv_.size()}; }

  void all_reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype, Redop) override;
  void reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype, Redop, int root) override;
  void reduce_scatter(const std::byte* send, std::byte* recv, std::size_t recv_count, Dtype, Redop) override;
  void all_gather(const std::byte* send, std::byte* recv, std::size_t send_count, Dtype) override;
  void broadcast(const std::byte* send, std::byte* recv, std::size_t count, Dtype, int root) override;
  void gather(const std::byte* send, std::byte* recv, std::size_t send_count, Dtype, int root) override;
  void scatter(const std::byte* send, std::byte* recv, std::size_t recv_count, Dtype, int root) override;
  void alltoall(const std::byte* send, std::byte* recv, std::size_t count, Dtype) override;
  void exchange(std::span<const Transfer> sends, std::span<const Transfer> recvs, Dtype) override;
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override;
  void begin_group() override;
  void end_group() override;
  void synchronize() override;
  Stamps* stamps() override { return &stamps_; }
  std::optional<DeviceCondition> condition() override {
    return nvml_ ? std::optional(nvml_->condition()) : std::nullopt;
  }

  void fill(std::byte* at, const Stream& stream, std::uint64_t first, std::size_t elements) override;
  void compare(const std::byte* at, const Stream& stream, std::uint64_t first, std::size_t elements,
               std::uint64_t index_base, Mismatches&) override;

 private:
  ncclRedOp_t redop_of(Redop redop, Dtype dtype);
  const unsigned char* tile_on_device(const Tile& tile);
  void check(ncclResult_t result, const char* doing) const;

  const NcclLibrary& library_;
  Team& world_;
  Team& group_;
  DeviceMemory send_;
  DeviceMemory recv_;
  DeviceMemory differing_;  // one counter of `compare`
  bool owns_stream_;
  cudaStream_t stream_ = nullptr;
  EventStamps stamps_;
  ncclComm_t comm_ = nullptr;
  std::optional<NvmlGpu> nvml_;
  std::map<Dtype, ncclRedOp_t> premulsums_;
  std::map<Tile, DeviceMemory> tiles_;
};

}  // namespace busbw
