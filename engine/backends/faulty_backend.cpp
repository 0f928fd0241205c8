// Both classes forward every call to the wrapped object, `inner_`, and add the faults of the rank.
#include "backends/faulty_backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "common/support/error.hpp"

namespace busbw {
namespace {

/// The memory that one operation wrote for this rank.
struct OperationResult {
  std::span<std::byte> memory;
  std::size_t element_bytes;
};

class FaultyCommunicator final : public Communicator {
 public:
  FaultyCommunicator(std::unique_ptr<Communicator> inner, std::span<const Fault> faults, int world_rank,
                     const MemoryCopy& copy)
      : inner_(std::move(inner)), faults_(faults, world_rank), copy_memory_(copy) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::span<std::byte> send_buffer() override { return inner_->send_buffer(); }
  std::span<std::byte> recv_buffer() override { return inner_->recv_buffer(); }

  void all_reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, Redop redop) override {
    run_with_faults([&] { inner_->all_reduce(send, recv, count, dtype, redop); }, recv, count, dtype);
  }
  void reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, Redop redop, int root) override {
    run_with_faults([&] { inner_->reduce(send, recv, count, dtype, redop, root); }, recv, rank() == root ? count : 0,
                    dtype);
  }
  void reduce_scatter(const std::byte* send, std::byte* recv, std::size_t recv_count, Dtype dtype,
                      Redop redop) override {
    run_with_faults([&] { inner_->reduce_scatter(send, recv, recv_count, dtype, redop); }, recv, recv_count, dtype);
  }
  void all_gather(const std::byte* send, std::byte* recv, std::size_t send_count, Dtype dtype) override {
    run_with_faults([&] { inner_->all_gather(send, recv, send_count, dtype); }, recv, count_over_ranks(send_count),
                    dtype);
  }
  void broadcast(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, int root) override {
    run_with_faults([&] { inner_->broadcast(send, recv, count, dtype, root); }, recv, count, dtype);
  }
  void gather(const std::byte* send, std::byte* recv, std::size_t send_count, Dtype dtype, int root) override {
    const std::size_t written = rank() == root ? count_over_ranks(send_count) : 0;
    run_with_faults([&] { inner_->gather(send, recv, send_count, dtype, root); }, recv, written, dtype);
  }
  void scatter(const std::byte* send, std::byte* recv, std::size_t recv_count, Dtype dtype, int root) override {
    run_with_faults([&] { inner_->scatter(send, recv, recv_count, dtype, root); }, recv, recv_count, dtype);
  }
  void alltoall(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype) override {
    run_with_faults([&] { inner_->alltoall(send, recv, count, dtype); }, recv, count_over_ranks(count), dtype);
  }
  void exchange(std::span<const Transfer> sends, std::span<const Transfer> recvs, Dtype dtype) override {
    const std::span<std::byte> result = result_of(recvs, size_bytes(dtype));
    run_with_faults([&] { inner_->exchange(sends, recvs, dtype); }, result.data(), result.size() / size_bytes(dtype),
                    dtype);
  }
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override { inner_->copy(to, from, bytes); }
  void begin_group() override { inner_->begin_group(); }
  void end_group() override { inner_->end_group(); }
  void begin_multi_step() override {
    faults_.begin_multi_step();
    inner_->begin_multi_step();
  }
  void end_multi_step(std::span<std::byte> result, Dtype dtype) override {
    inner_->end_multi_step(result, dtype);
    faults_.end_multi_step();
    defer_corruption(result, dtype);
  }
  void flush() override { inner_->flush(); }
  void synchronize() override {
    inner_->synchronize();
    for (const OperationResult& result : std::exchange(results_to_corrupt_, {})) corrupt(result);
  }
  Timestamps* timestamps() override { return inner_->timestamps(); }
  bool can_capture() const override { return inner_->can_capture(); }
  void begin_capture() override { inner_->begin_capture(); }
  std::unique_ptr<OperationGraph> end_capture() override { return inner_->end_capture(); }
  Gate* gate() override { return inner_->gate(); }
  std::optional<DeviceClockState> clock_state() override { return inner_->clock_state(); }
  std::optional<MemoryUse> memory() override { return inner_->memory(); }
  void fill(std::byte* memory, const DataStream& stream, std::uint64_t first, std::size_t elements) override {
    inner_->fill(memory, stream, first, elements);
  }
  void compare(const std::byte* memory, const DataStream& stream, std::uint64_t first, std::size_t elements,
               std::uint64_t index_base, Mismatches& mismatches) override {
    inner_->compare(memory, stream, first, elements, index_base, mismatches);
  }
  void enter(Phase phase) override {
    faults_.enter(phase);
    inner_->enter(phase);
  }

 private:
  /// Runs an operation that writes `elements` elements for this rank to `memory`.
  template <class Operation>
  void run_with_faults(const Operation& operation, std::byte* memory, std::size_t elements, Dtype dtype) {
    faults_.before_operation();
    operation();
    defer_corruption({memory, elements * size_bytes(dtype)}, dtype);
  }

  /// Remembers a result, which `synchronize` corrupts when all operations have finished.
  void defer_corruption(std::span<std::byte> result, Dtype dtype) {
    if (!result.empty() && faults_.corrupts_results()) results_to_corrupt_.push_back({result, size_bytes(dtype)});
  }

  /// Returns `count`, a number of elements per rank, times the number of ranks.
  std::size_t count_over_ranks(std::size_t count) const { return count * static_cast<std::size_t>(size()); }

  /// Applies the faults to a host copy of the result. The copy includes the byte after the result, which an overrun
  /// changes.
  void corrupt(const OperationResult& result) {
    const std::size_t bytes = result.memory.size();
    host_copy_.resize(bytes + 1);
    copy_memory_(host_copy_.data(), result.memory.data(), bytes + 1);
    faults_.after_operation(std::span(host_copy_).first(bytes), result.element_bytes);
    copy_memory_(result.memory.data(), host_copy_.data(), bytes + 1);
  }

  std::unique_ptr<Communicator> inner_;
  RankFaults faults_;
  const MemoryCopy& copy_memory_;
  std::vector<OperationResult> results_to_corrupt_;  // of operations that may still run
  std::vector<std::byte> host_copy_;
};

class FaultyBackend final : public Backend {
 public:
  FaultyBackend(std::unique_ptr<Backend> inner, Faults faults, MemoryCopy copy)
      : inner_(std::move(inner)), faults_(std::move(faults)), copy_memory_(std::move(copy)) {}

  std::string name() const override { return inner_->name(); }
  std::string version() const override { return inner_->version(); }
  std::optional<LibraryInfo> library() const override { return inner_->library(); }
  std::string headers() const override { return inner_->headers(); }
  Device device(int index) const override { return inner_->device(index); }
  std::size_t available_bytes(int ranks) const override { return inner_->available_bytes(ranks); }
  std::optional<Limitation> limitation_of(Dtype dtype, bool reduces) const override {
    return inner_->limitation_of(dtype, reduces);
  }
  std::string least_free_device() const override { return inner_->least_free_device(); }
  std::size_t work_bytes(int ranks) const override { return inner_->work_bytes(ranks); }
  std::vector<std::pair<std::string, std::string>> facts() const override { return inner_->facts(); }
  std::vector<std::string> warnings() const override { return inner_->warnings(); }
  std::vector<std::string> diagnosis() const override { return inner_->diagnosis(); }
  void reserve(int ranks, std::size_t buffer_bytes) override { inner_->reserve(ranks, buffer_bytes); }
  void enter(Phase phase, int world_rank) override {
    trigger_faults(faults_, phase, world_rank);
    inner_->enter(phase, world_rank);
  }
  std::unique_ptr<Communicator> connect(Team& world, Team& group) override {
    require_existing_ranks(faults_, world.size());
    return std::make_unique<FaultyCommunicator>(inner_->connect(world, group), faults_, world.rank(), copy_memory_);
  }

 private:
  std::unique_ptr<Backend> inner_;
  Faults faults_;
  MemoryCopy copy_memory_;
};

}  // namespace

std::unique_ptr<Backend> inject_faults(std::unique_ptr<Backend> inner, Faults faults, MemoryCopy copy) {
  if (faults.empty()) return inner;
  return std::make_unique<FaultyBackend>(std::move(inner), std::move(faults), std::move(copy));
}

}  // namespace busbw
