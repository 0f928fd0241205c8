#pragma once
// Measures the delay between a host timestamp and the start of the rank's next operation.
#include <cstddef>
#include <span>
#include <vector>

#include "backends/backend.hpp"
#include "measure/sampling/host_timestamps.hpp"

namespace busbw {

/// Forwards all calls to a communicator without a device clock. Reads the clock once at the first operation after each
/// timestamp. Local copies are no operations, because no other rank waits for them.
class StartDelayCommunicator final : public Communicator {
 public:
  /// Both arguments must outlive this object.
  StartDelayCommunicator(Communicator& inner, HostTimestamps& timestamps) : inner_(inner), timestamps_(timestamps) {}

  /// Makes room for the delays of further timestamps, so that no memory is allocated while time is measured.
  void reserve(std::size_t timestamps) { delays_s_.resize(count_ + timestamps); }
  /// Delays so far in seconds, one per timestamp that an operation followed.
  std::span<const double> delays_s() const { return std::span(delays_s_).first(count_); }

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::span<std::byte> send_buffer() override { return inner_.send_buffer(); }
  std::span<std::byte> recv_buffer() override { return inner_.recv_buffer(); }
  void all_reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, Redop redop) override {
    starting().all_reduce(send, recv, count, dtype, redop);
  }
  void reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, Redop redop, int root) override {
    starting().reduce(send, recv, count, dtype, redop, root);
  }
  void reduce_scatter(const std::byte* send, std::byte* recv, std::size_t recv_count, Dtype dtype,
                      Redop redop) override {
    starting().reduce_scatter(send, recv, recv_count, dtype, redop);
  }
  void all_gather(const std::byte* send, std::byte* recv, std::size_t send_count, Dtype dtype) override {
    starting().all_gather(send, recv, send_count, dtype);
  }
  void broadcast(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, int root) override {
    starting().broadcast(send, recv, count, dtype, root);
  }
  void gather(const std::byte* send, std::byte* recv, std::size_t send_count, Dtype dtype, int root) override {
    starting().gather(send, recv, send_count, dtype, root);
  }
  void scatter(const std::byte* send, std::byte* recv, std::size_t recv_count, Dtype dtype, int root) override {
    starting().scatter(send, recv, recv_count, dtype, root);
  }
  void alltoall(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype) override {
    starting().alltoall(send, recv, count, dtype);
  }
  void exchange(std::span<const Transfer> sends, std::span<const Transfer> recvs, Dtype dtype) override {
    starting().exchange(sends, recvs, dtype);
  }
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override { inner_.copy(to, from, bytes); }
  void begin_group() override { inner_.begin_group(); }
  void end_group() override { inner_.end_group(); }
  void flush() override { inner_.flush(); }
  void synchronize() override { inner_.synchronize(); }
  std::optional<DeviceClockState> clock_state() override { return inner_.clock_state(); }
  std::optional<MemoryUse> memory() override { return inner_.memory(); }
  void fill(std::byte* memory, const DataStream& stream, std::uint64_t first, std::size_t elements) override {
    inner_.fill(memory, stream, first, elements);
  }
  void compare(const std::byte* memory, const DataStream& stream, std::uint64_t first, std::size_t elements,
               std::uint64_t index_base, Mismatches& mismatches) override {
    inner_.compare(memory, stream, first, elements, index_base, mismatches);
  }
  void enter(Phase phase) override { inner_.enter(phase); }

 private:
  /// Returns the communicator for an operation that starts now.
  Communicator& starting() {
    if (const auto timestamp_s = timestamps_.take_latest_s(); timestamp_s && count_ < delays_s_.size())
      delays_s_[count_++] = monotonic_s() - *timestamp_s;
    return inner_;
  }

  Communicator& inner_;
  HostTimestamps& timestamps_;
  std::vector<double> delays_s_;  // the first `count_` are measured
  std::size_t count_ = 0;
};

}  // namespace busbw
