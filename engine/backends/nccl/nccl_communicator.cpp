#include "backends/nccl/nccl_communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "backends/nccl/device_data.hpp"
#include "support/dispatch.hpp"
#include "verify/host_data.hpp"

namespace busbw {
namespace {

constexpr std::size_t kMostTiles = 256;                // of up to 128 KiB each
constexpr std::size_t kCopiedBytes = std::size_t{64} << 20;  // of a wrong result at a time

ncclDataType_t nccl_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::int8: return ncclInt8;
    case Dtype::uint8: return ncclUint8;
    case Dtype::int32: return ncclInt32;
    case Dtype::uint32: return ncclUint32;
    case Dtype::int64: return ncclInt64;
    case Dtype::uint64: return ncclUint64;
    case Dtype::float16: return ncclFloat16;
    case Dtype::float32: return ncclFloat32;
    case Dtype::float64: return ncclFloat64;
    case Dtype::bfloat16: return ncclBfloat16;
    case Dtype::f8e4m3: return ncclFloat8e4m3;
    case Dtype::f8e5m2: return ncclFloat8e5m2;
  }
  throw std::logic_error("nccl_type: not a Dtype");
}

/// A whole number as an element. (An integer cast to a small float would be taken for its bits.)
template <class T>
T element_of(double value) {
  if constexpr (kIsFloat<T>) {
    return round_to<T>(value);
  } else {
    return static_cast<T>(value);
  }
}

cudaStream_t make_stream(bool own) {
  cudaStream_t stream = nullptr;
  if (own) check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a CUDA stream");
  return stream;
}

}  // namespace

void EventStamps::reset(std::size_t count) {
  while (events_.size() < count) events_.emplace_back();
}

void EventStamps::set(std::size_t index) {
  check_cuda(cudaEventRecord(events_[index].get(), stream_), "recording a CUDA event");
}

double EventStamps::between_s(std::size_t from, std::size_t to) const {
  float elapsed_ms = 0;
  check_cuda(cudaEventElapsedTime(&elapsed_ms, events_[from].get(), events_[to].get()), "reading CUDA events");
  return elapsed_ms * 1e-3;
}

NcclCommunicator::NcclCommunicator(const NcclLibrary& library, Team& world, Team& group, std::size_t buffer_bytes,
                                   bool null_stream, std::optional<NvmlGpu> nvml)
    : library_(library),
      world_(world),
      group_(group),
      send_(buffer_bytes),
      recv_(buffer_bytes),
      differing_(sizeof(unsigned long long)),
      owns_stream_(!null_stream),
      stream_(make_stream(owns_stream_)),
      stamps_(stream_),
      nvml_(std::move(nvml)) {
  ncclUniqueId id{};
  if (rank() == 0) check(library_.call.get_unique_id(&id), "ncclGetUniqueId");
  const Bytes shared = group_.broadcast(std::as_bytes(std::span(&id, 1)));
  std::memcpy(&id, shared.data(), sizeof(id));
  check(library_.call.comm_init_rank(&comm_, size(), id, rank()), "ncclCommInitRank");
}

NcclCommunicator::~NcclCommunicator() {
  if (comm_) {
    if (world_.aborted()) {
      library_.call.comm_abort(comm_);
    } else {
      for (const auto& [dtype, redop] : premulsums_) library_.call.redop_destroy(redop, comm_);
      library_.call.comm_destroy(comm_);
    }
  }
  if (owns_stream_) cudaStreamDestroy(stream_);
}

void NcclCommunicator::check(ncclResult_t result, const char* doing) const {
  if (result == ncclSuccess || result == ncclInProgress) return;
  const std::string last = library_.last_error();
  throw EnvironmentError(fmt::format("{} failed on rank {}: {}{}", doing, world_.rank(),
                                     library_.call.get_error_string(result), last.empty() ? "" : ": " + last));
}

ncclRedOp_t NcclCommunicator::redop_of(Redop redop, Dtype dtype) {
  switch (redop) {
    case Redop::sum: return ncclSum;
    case Redop::prod: return ncclProd;
    case Redop::max: return ncclMax;
    case Redop::min: return ncclMin;
    case Redop::avg: return ncclAvg;
    case Redop::mulsum: break;
  }
  const auto known = premulsums_.find(dtype);
  if (known != premulsums_.end()) return known->second;
  ncclRedOp_t made{};
  with_element_type(dtype, [&]<class T>() {
    auto scalar = element_of<T>(mulsum_scalar(rank()));
    check(library_.call.redop_create_premulsum(&made, &scalar, nccl_type(dtype), ncclScalarHostImmediate, comm_),
          "ncclRedOpCreatePreMulSum");
  });
  return premulsums_[dtype] = made;
}

void NcclCommunicator::all_reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, Redop redop) {
  check(library_.call.all_reduce(send, recv, count, nccl_type(dtype), redop_of(redop, dtype), comm_, stream_),
        "ncclAllReduce");
}

void NcclCommunicator::reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, Redop redop,
                              int root) {
  check(library_.call.reduce(send, recv, count, nccl_type(dtype), redop_of(redop, dtype), root, comm_, stream_),
        "ncclReduce");
}

void NcclCommunicator::reduce_scatter(const std::byte* send, std::byte* recv, std::size_t recv_count, Dtype dtype,
                                      Redop redop) {
  check(library_.call.reduce_scatter(send, recv, recv_count, nccl_type(dtype), redop_of(redop, dtype), comm_, stream_),
        "ncclReduceScatter");
}

void NcclCommunicator::all_gather(const std::byte* send, std::byte* recv, std::size_t send_count, Dtype dtype) {
  check(library_.call.all_gather(send, recv, send_count, nccl_type(dtype), comm_, stream_), "ncclAllGather");
}

void NcclCommunicator::broadcast(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, int root) {
  check(library_.call.broadcast(send, recv, count, nccl_type(dtype), root, comm_, stream_), "ncclBroadcast");
}

// NCCL makes these of sends and receives, as nccl-tests does.

void NcclCommunicator::gather(const std::byte* send, std::byte* recv, std::size_t send_count, Dtype dtype, int root) {
  const Transfer mine{root, const_cast<std::byte*>(send), send_count};
  std::vector<Transfer> from_all;
  for (int peer = 0; rank() == root && peer < size(); ++peer)
    from_all.push_back({peer, recv + send_count * size_bytes(dtype) * peer, send_count});
  exchange({&mine, 1}, from_all, dtype);
}

void NcclCommunicator::scatter(const std::byte* send, std::byte* recv, std::size_t recv_count, Dtype dtype, int root) {
  const Transfer mine{root, recv, recv_count};
  std::vector<Transfer> to_all;
  for (int peer = 0; rank() == root && peer < size(); ++peer)
    to_all.push_back({peer, const_cast<std::byte*>(send) + recv_count * size_bytes(dtype) * peer, recv_count});
  exchange(to_all, {&mine, 1}, dtype);
}

void NcclCommunicator::alltoall(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype) {
  const std::size_t part = count * size_bytes(dtype);
  std::vector<Transfer> sends;
  std::vector<Transfer> recvs;
  for (int peer = 0; peer < size(); ++peer) {
    sends.push_back({peer, const_cast<std::byte*>(send) + part * peer, count});
    recvs.push_back({peer, recv + part * peer, count});
  }
  exchange(sends, recvs, dtype);
}

void NcclCommunicator::exchange(std::span<const Transfer> sends, std::span<const Transfer> recvs, Dtype dtype) {
  const ncclDataType_t type = nccl_type(dtype);
  check(library_.call.group_start(), "ncclGroupStart");
  for (const Transfer& each : sends)
    if (each.count > 0) check(library_.call.send(each.data, each.count, type, each.peer, comm_, stream_), "ncclSend");
  for (const Transfer& each : recvs)
    if (each.count > 0) check(library_.call.recv(each.data, each.count, type, each.peer, comm_, stream_), "ncclRecv");
  check(library_.call.group_end(), "ncclGroupEnd");
}

void NcclCommunicator::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (to == from || bytes == 0) return;
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), "copying on the GPU");
}

void NcclCommunicator::begin_group() { check(library_.call.group_start(), "ncclGroupStart"); }

void NcclCommunicator::end_group() { check(library_.call.group_end(), "ncclGroupEnd"); }

void NcclCommunicator::synchronize() {
  // As nccl-tests waits: without sleeping, and with an eye on NCCL and on the other ranks.
  for (unsigned look = 0;; ++look) {
    const cudaError_t state = cudaStreamQuery(stream_);
    if (state == cudaSuccess) return;
    if (state != cudaErrorNotReady) check_cuda(state, "waiting for the GPU");
    if (look % 64 == 63) {
      ncclResult_t error = ncclSuccess;
      check(library_.call.comm_get_async_error(comm_, &error), "ncclCommGetAsyncError");
      check(error, "a collective");
      if (world_.aborted()) throw Aborted();
    }
    std::this_thread::yield();
  }
}

const unsigned char* NcclCommunicator::tile_on_device(const Tile& tile) {
  const auto known = tiles_.find(tile);
  if (known == tiles_.end()) {
    if (tiles_.size() >= kMostTiles) {
      synchronize();
      tiles_.clear();
    }
    DeviceMemory copy(tile->size() + kTilePaddingBytes);
    check_cuda(cudaMemcpy(copy.data(), tile->data(), tile->size(), cudaMemcpyHostToDevice), "copying to the GPU");
    tiles_.emplace(tile, std::move(copy));
  }
  return reinterpret_cast<const unsigned char*>(tiles_.at(tile).data());
}

void NcclCommunicator::fill(std::byte* at, const Stream& stream, std::uint64_t first, std::size_t elements) {
  const DeviceRange range{
      reinterpret_cast<unsigned char*>(at),       tile_on_device(stream.tile), stream.seed, first, elements,
      static_cast<unsigned>(stream.element_bytes)};
  check_cuda(launch_fill(range, stream_), "filling a buffer");
}

void NcclCommunicator::compare(const std::byte* at, const Stream& stream, std::uint64_t first, std::size_t elements,
                               std::uint64_t index_base, Mismatches& mismatches) {
  if (elements == 0) return;
  // Kernels only read it.
  auto* const data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(at));
  const DeviceRange range{
      data, tile_on_device(stream.tile), stream.seed, first, elements, static_cast<unsigned>(stream.element_bytes)};
  auto* const counter = reinterpret_cast<unsigned long long*>(differing_.data());
  unsigned long long differing = 0;
  check_cuda(cudaMemsetAsync(counter, 0, sizeof(differing), stream_), "clearing a counter");
  check_cuda(launch_compare(range, counter, stream_), "comparing a buffer");
  check_cuda(cudaMemcpyAsync(&differing, counter, sizeof(differing), cudaMemcpyDeviceToHost, stream_),
             "reading a counter");
  synchronize();
  if (differing == 0) return;
  // Something is wrong: the host, which has time now, says what, by the same definition as everywhere.
  const std::size_t chunk = kCopiedBytes / stream.element_bytes;
  std::vector<std::byte> copy(std::min(chunk, elements) * stream.element_bytes);
  for (std::size_t done = 0; done < elements; done += chunk) {
    const std::size_t now = std::min(chunk, elements - done);
    check_cuda(
        cudaMemcpy(copy.data(), at + done * stream.element_bytes, now * stream.element_bytes, cudaMemcpyDeviceToHost),
        "copying from the GPU");
    compare_host(copy.data(), stream, first + done, now, index_base + done, mismatches);
  }
}

}  // namespace busbw
