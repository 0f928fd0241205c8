#pragma once
// A communicator that moves no data, for tests of buffers and calls.
#include <cstddef>
#include <span>
#include <stdexcept>
#include <vector>

#include "backends/backend.hpp"

namespace busbw {

/// A rank with two buffers that only counts its waits.
class IdleCommunicator : public Communicator {
 public:
  IdleCommunicator(int rank, int size, std::size_t buffer_bytes)
      : rank_(rank), size_(size), send_(buffer_bytes), recv_(buffer_bytes) {}
  /// Simulates a device with its own clock.
  void stamp_with(Timestamps& timestamps) { timestamps_ = &timestamps; }
  Timestamps* timestamps() override { return timestamps_; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::span<std::byte> send_buffer() override { return send_; }
  std::span<std::byte> recv_buffer() override { return recv_; }
  void all_reduce(const std::byte*, std::byte*, std::size_t, Dtype, Redop) override { refuse(); }
  void reduce(const std::byte*, std::byte*, std::size_t, Dtype, Redop, int) override { refuse(); }
  void reduce_scatter(const std::byte*, std::byte*, std::size_t, Dtype, Redop) override { refuse(); }
  void all_gather(const std::byte*, std::byte*, std::size_t, Dtype) override { refuse(); }
  void broadcast(const std::byte*, std::byte*, std::size_t, Dtype, int) override { refuse(); }
  void gather(const std::byte*, std::byte*, std::size_t, Dtype, int) override { refuse(); }
  void scatter(const std::byte*, std::byte*, std::size_t, Dtype, int) override { refuse(); }
  void alltoall(const std::byte*, std::byte*, std::size_t, Dtype) override { refuse(); }
  void exchange(std::span<const Transfer>, std::span<const Transfer>, Dtype) override { refuse(); }
  void copy(std::byte*, const std::byte*, std::size_t) override { refuse(); }
  void synchronize() override { ++synchronized_; }
  int synchronized() const { return synchronized_; }
  void fill(std::byte*, const DataStream&, std::uint64_t, std::size_t) override { refuse(); }
  void compare(const std::byte*, const DataStream&, std::uint64_t, std::size_t, std::uint64_t, Mismatches&) override {
    refuse();
  }

 private:
  static void refuse() { throw std::logic_error("only has buffers"); }
  int rank_;
  int size_;
  int synchronized_ = 0;
  Timestamps* timestamps_ = nullptr;
  std::vector<std::byte> send_;
  std::vector<std::byte> recv_;
};

}  // namespace busbw
