#pragma once
// Base of communicators that observe the operations of an inner communicator, for example to record them in a trace.
#include <span>

#include "backends/backend.hpp"
#include "common/trace/format.hpp"

namespace busbw {

/// One operation, as it is called.
struct ObservedOperation {
  trace::Function function;  // `other` for an exchange or a put
  const std::byte* send = nullptr;
  const std::byte* recv = nullptr;
  std::size_t count = 0;
  Dtype dtype;
  std::optional<Redop> redop = {};
  int root = -1;  // -1: the operation has no root
  std::span<const Transfer> sends = {};  // of an exchange
  std::span<const Transfer> recvs = {};
};

/// Forwards operations and accesses to memory to the inner communicator, and reports each operation to the derived
/// class. Local copies are not reported, because no other rank waits for them.
///
/// Members about timestamps, delays, `wait_for`, graphs, the gate and algorithms are not forwarded. They keep the
/// defaults of Communicator, which are right if the operations of the inner communicator end before their calls return.
class ObservingCommunicator : public Communicator {
 public:
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::span<std::byte> send_buffer() override { return inner_.send_buffer(); }
  std::span<std::byte> recv_buffer() override { return inner_.recv_buffer(); }
  void all_reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, Redop redop) override {
    begin_operation({trace::Function::all_reduce, send, recv, count, dtype, redop});
    inner_.all_reduce(send, recv, count, dtype, redop);
    end_operation();
  }
  void reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, Redop redop, int root) override {
    begin_operation({trace::Function::reduce, send, recv, count, dtype, redop, root});
    inner_.reduce(send, recv, count, dtype, redop, root);
    end_operation();
  }
  void reduce_scatter(const std::byte* send, std::byte* recv, std::size_t recv_count, Dtype dtype,
                      Redop redop) override {
    begin_operation({trace::Function::reduce_scatter, send, recv, recv_count, dtype, redop});
    inner_.reduce_scatter(send, recv, recv_count, dtype, redop);
    end_operation();
  }
  void all_gather(const std::byte* send, std::byte* recv, std::size_t send_count, Dtype dtype) override {
    begin_operation({trace::Function::all_gather, send, recv, send_count, dtype});
    inner_.all_gather(send, recv, send_count, dtype);
    end_operation();
  }
  void broadcast(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, int root) override {
    begin_operation({trace::Function::broadcast, send, recv, count, dtype, {}, root});
    inner_.broadcast(send, recv, count, dtype, root);
    end_operation();
  }
  void gather(const std::byte* send, std::byte* recv, std::size_t send_count, Dtype dtype, int root) override {
    begin_operation({trace::Function::gather, send, recv, send_count, dtype, {}, root});
    inner_.gather(send, recv, send_count, dtype, root);
    end_operation();
  }
  void scatter(const std::byte* send, std::byte* recv, std::size_t recv_count, Dtype dtype, int root) override {
    begin_operation({trace::Function::scatter, send, recv, recv_count, dtype, {}, root});
    inner_.scatter(send, recv, recv_count, dtype, root);
    end_operation();
  }
  void alltoall(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype) override {
    begin_operation({trace::Function::alltoall, send, recv, count, dtype});
    inner_.alltoall(send, recv, count, dtype);
    end_operation();
  }
  void exchange(std::span<const Transfer> sends, std::span<const Transfer> recvs, Dtype dtype) override {
    begin_operation({.function = trace::Function::other, .dtype = dtype, .sends = sends, .recvs = recvs});
    inner_.exchange(sends, recvs, dtype);
    end_operation();
  }
  /// `put_obstacle` is not forwarded: its default refuses puts, because ObservedOperation cannot describe a put for a
  /// trace. A derived class that records no trace may still call `put`, if the inner communicator has no obstacle.
  void put(std::span<const Put> puts, std::span<const AwaitedPut> awaited, Dtype dtype) override {
    begin_operation({.function = trace::Function::other, .dtype = dtype});
    inner_.put(puts, awaited, dtype);
    end_operation();
  }
  bool give_up_peers_after(double limit_s) override { return inner_.give_up_peers_after(limit_s); }
  std::vector<std::pair<int, std::string>> failed_peers() const override { return inner_.failed_peers(); }
  ConnectionProblem reconnect(Team& living) override { return inner_.reconnect(living); }
  void compute_matrix_square(float* product, const float* matrix, std::size_t order) override {
    inner_.compute_matrix_square(product, matrix, order);
  }
  void use_in_this_thread() override { inner_.use_in_this_thread(); }
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

 protected:
  /// `inner` must outlive this object.
  explicit ObservingCommunicator(Communicator& inner) : inner_(inner) {}

 private:
  /// Called before the call of the inner communicator.
  virtual void begin_operation(const ObservedOperation& operation) = 0;
  /// Called after the call of the inner communicator. An inner communicator with a device clock may still run the
  /// operation.
  virtual void end_operation() {}

  Communicator& inner_;
};

}  // namespace busbw
