#include "backends/nccl/cuda/nccl_issuer.hpp"

#include <optional>
#include <stdexcept>
#include <utility>

#include "backends/nccl/kernels/device_copy.hpp"
#include "values/dispatch.hpp"
#include "values/float_formats.hpp"
#include "verify/reduction_values.hpp"

namespace busbw {
namespace {

// Looks at a device between two at NCCL's own state of things.
constexpr unsigned kLooksPerAsyncCheck = 64;

/// A whole number as an element. (An integer cast to a small float would be taken for its bits.)
template <class T>
T element_of(double value) {
  if constexpr (kIsFloat<T>) {
    return round_to<T>(value);
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace

NcclIssuer::NcclIssuer(const NcclLibrary& library, const NcclComm& comm, RankResources seat, CudaGate& gate)
    : call_(library.call), comm_(comm), seat_(std::move(seat)), gate_(gate) {}

NcclIssuer::~NcclIssuer() {
  for (const auto& [dtype, redop] : premulsums_) call_.redop_destroy(redop, comm_.get());
}

void NcclIssuer::run(const IssueRequest& launch) {
  // Only the null stream depends on what device is current: each has one.
  std::optional<ScopedDevice> on_device;
  if (!seat_.stream) on_device.emplace(seat_.device);
  call(launch);
}

void NcclIssuer::call(const IssueRequest& launch) {
  const ncclComm_t comm = comm_.get();
  const cudaStream_t stream = seat_.stream;
  switch (launch.kind) {
    case IssueRequest::Kind::all_reduce:
      if (seat_.kernel) return run_kernel(launch);
      comm_.check(call_.all_reduce(launch.send, launch.recv, launch.count, nccl_type(launch.dtype),
                                   redop_of(launch.redop, launch.dtype), comm, stream),
                  "ncclAllReduce");
      return;
    case IssueRequest::Kind::reduce:
      comm_.check(call_.reduce(launch.send, launch.recv, launch.count, nccl_type(launch.dtype),
                               redop_of(launch.redop, launch.dtype), launch.root, comm, stream),
                  "ncclReduce");
      return;
    case IssueRequest::Kind::reduce_scatter:
      comm_.check(call_.reduce_scatter(launch.send, launch.recv, launch.count, nccl_type(launch.dtype),
                                       redop_of(launch.redop, launch.dtype), comm, stream),
                  "ncclReduceScatter");
      return;
    case IssueRequest::Kind::all_gather:
      comm_.check(call_.all_gather(launch.send, launch.recv, launch.count, nccl_type(launch.dtype), comm, stream),
                  "ncclAllGather");
      return;
    case IssueRequest::Kind::broadcast:
      comm_.check(
          call_.broadcast(launch.send, launch.recv, launch.count, nccl_type(launch.dtype), launch.root, comm, stream),
          "ncclBroadcast");
      return;
    case IssueRequest::Kind::gather: gather(launch); return;
    case IssueRequest::Kind::scatter: scatter(launch); return;
    case IssueRequest::Kind::alltoall: alltoall(launch); return;
    case IssueRequest::Kind::exchange: exchange(launch.sends, launch.recvs, launch.dtype); return;
    case IssueRequest::Kind::copy: {
      const ScopedDevice on_device(seat_.device);
      check_cuda(launch_copy(reinterpret_cast<unsigned char*>(launch.recv),
                             reinterpret_cast<const unsigned char*>(launch.send), launch.count, stream),
                 seat_.where, "copying on the GPU");
      return;
    }
    case IssueRequest::Kind::stamp: stamp(launch.count); return;
    case IssueRequest::Kind::begin_recording: begin_recording(); return;
    case IssueRequest::Kind::end_recording: end_recording(); return;
    case IssueRequest::Kind::instantiate_graph: make_ready(); return;
    case IssueRequest::Kind::issue_recording:
      check_cuda(cudaGraphLaunch(static_cast<CudaGraph*>(launch.recording.get())->get(), stream), seat_.where,
                 "launching a CUDA graph");
      return;
    case IssueRequest::Kind::close_gate: {
      const ScopedDevice on_device(seat_.device);
      gate_.close(launch.count, stream);
      return;
    }
    case IssueRequest::Kind::begin_group:
    case IssueRequest::Kind::end_group:
    case IssueRequest::Kind::synchronize: break;
  }
  throw std::logic_error("NcclLauncher: what concerns all of a launch group is no rank's own");
}

void NcclIssuer::run_kernel(const IssueRequest& launch) {
  const ScopedDevice on_device(seat_.device);
  seat_.kernel->run(launch.send, launch.recv, launch.count, launch.dtype, launch.redop, seat_.stream);
}

void NcclIssuer::exchange(std::span<const Transfer> sends, std::span<const Transfer> recvs, Dtype dtype) {
  const ncclDataType_t type = nccl_type(dtype);
  begin_nccl_group();
  try {
    for (const Transfer& each : sends)
      if (each.count > 0)
        comm_.check(call_.send(each.data, each.count, type, each.peer, comm_.get(), seat_.stream), "ncclSend");
    for (const Transfer& each : recvs)
      if (each.count > 0)
        comm_.check(call_.recv(each.data, each.count, type, each.peer, comm_.get(), seat_.stream), "ncclRecv");
  } catch (...) {
    abort_nccl_group();
    throw;
  }
  end_nccl_group();
}

// These are made of sends and receives, which only read what is sent, where the library has no operation of its own; as
// in nccl-tests.

void NcclIssuer::gather(const IssueRequest& launch) {
  if (call_.gather)
    return comm_.check(call_.gather(launch.send, launch.recv, launch.count, nccl_type(launch.dtype), launch.root,
                                    comm_.get(), seat_.stream),
                       "ncclGather");
  const Transfer mine{launch.root, const_cast<std::byte*>(launch.send), launch.count};
  recvs_.clear();
  for (int peer = 0; seat_.rank == launch.root && peer < seat_.ranks; ++peer)
    recvs_.push_back({peer, launch.recv + launch.count * size_bytes(launch.dtype) * peer, launch.count});
  exchange({&mine, 1}, recvs_, launch.dtype);
}

void NcclIssuer::scatter(const IssueRequest& launch) {
  if (call_.scatter)
    return comm_.check(call_.scatter(launch.send, launch.recv, launch.count, nccl_type(launch.dtype), launch.root,
                                     comm_.get(), seat_.stream),
                       "ncclScatter");
  const Transfer mine{launch.root, launch.recv, launch.count};
  sends_.clear();
  auto* const send = const_cast<std::byte*>(launch.send);
  for (int peer = 0; seat_.rank == launch.root && peer < seat_.ranks; ++peer)
    sends_.push_back({peer, send + launch.count * size_bytes(launch.dtype) * peer, launch.count});
  exchange(sends_, {&mine, 1}, launch.dtype);
}

void NcclIssuer::alltoall(const IssueRequest& launch) {
  if (seat_.kernel) return run_kernel(launch);
  if (call_.alltoall)
    return comm_.check(
        call_.alltoall(launch.send, launch.recv, launch.count, nccl_type(launch.dtype), comm_.get(), seat_.stream),
        "ncclAlltoAll");
  const std::size_t part = launch.count * size_bytes(launch.dtype);
  auto* const send = const_cast<std::byte*>(launch.send);
  sends_.clear();
  recvs_.clear();
  for (int peer = 0; peer < seat_.ranks; ++peer) {
    sends_.push_back({peer, send + part * peer, launch.count});
    recvs_.push_back({peer, launch.recv + part * peer, launch.count});
  }
  exchange(sends_, recvs_, launch.dtype);
}

/// In a recording the event is one of the graph's nodes, and each launch of it gives the event a new time.
void NcclIssuer::stamp(std::size_t number) {
  const unsigned flags = recording_ ? cudaEventRecordExternal : cudaEventRecordDefault;
  check_cuda(cudaEventRecordWithFlags(seat_.stamps[number].get(), seat_.stream, flags), seat_.where,
             "recording a CUDA event");
}

/// Other threads may allocate and copy meanwhile: only this one's calls are held to what a recording allows.
void NcclIssuer::begin_recording() {
  check_cuda(cudaStreamBeginCapture(seat_.stream, cudaStreamCaptureModeThreadLocal), seat_.where,
             "beginning to record a CUDA graph");
  recording_ = true;
}

void NcclIssuer::end_recording() {
  recording_ = false;
  check_cuda(cudaStreamEndCapture(seat_.stream, &recorded_), seat_.where, "ending the recording of a CUDA graph");
}

/// Allocates, which this thread may not while it records for another rank.
void NcclIssuer::make_ready() {
  const ScopedDevice on_device(seat_.device);
  graph_ = std::make_shared<CudaGraph>(recorded_, seat_.stream, seat_.where);
  cudaGraphDestroy(std::exchange(recorded_, nullptr));
}

void NcclIssuer::begin_nccl_group() { comm_.check(call_.group_start(), "ncclGroupStart"); }
void NcclIssuer::end_nccl_group() { comm_.check(call_.group_end(), "ncclGroupEnd"); }

/// Starting what is in the group could wait for ranks that are gone. With a call in it that fails the group fails as a
/// whole, and its end starts nothing.
void NcclIssuer::abort_nccl_group() noexcept {
  if (call_.all_reduce) call_.all_reduce(nullptr, nullptr, 0, ncclFloat32, ncclSum, nullptr, nullptr);
  call_.group_end();
}

bool NcclIssuer::finished() {
  std::optional<ScopedDevice> on_device;
  if (!seat_.stream) on_device.emplace(seat_.device);
  const cudaError_t state = cudaStreamQuery(seat_.stream);
  if (state == cudaErrorNotReady) {
    if (++poll_count_ % kLooksPerAsyncCheck == 0) comm_.check_async();
    return false;
  }
  check_cuda(state, seat_.where, "waiting for the GPU");
  gate_.check_in_time();
  return true;
}

void NcclIssuer::recover() noexcept {
  gate_.open_for_good();
  if (std::exchange(recording_, false)) cudaStreamEndCapture(seat_.stream, &recorded_);
  if (recorded_) cudaGraphDestroy(std::exchange(recorded_, nullptr));
}

ncclRedOp_t NcclIssuer::redop_of(Redop redop, Dtype dtype) {
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
    auto scalar = element_of<T>(mulsum_scalar(seat_.rank));
    comm_.check(call_.redop_create_premulsum(&made, &scalar, nccl_type(dtype), ncclScalarHostImmediate, comm_.get()),
                "ncclRedOpCreatePreMulSum");
  });
  return premulsums_[dtype] = made;
}

}  // namespace busbw
