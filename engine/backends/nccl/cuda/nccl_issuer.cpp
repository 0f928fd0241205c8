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

// Polls of a device between two checks for asynchronous NCCL errors.
constexpr unsigned kPollsPerAsyncCheck = 64;

/// Converts a whole number to an element. A cast of an integer to a small float type would set its bits.
template <class T>
T element_of(double value) {
  if constexpr (kIsFloat<T>) {
    return round_to<T>(value);
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace

NcclIssuer::NcclIssuer(const NcclLibrary& library, const NcclComm& comm, RankResources resources, CudaGate& gate)
    : call_(library.call), comm_(comm), resources_(std::move(resources)), gate_(gate) {}

NcclIssuer::~NcclIssuer() {
  for (const auto& [dtype, redop] : premulsums_) call_.redop_destroy(redop, comm_.get());
}

void NcclIssuer::run(const IssueRequest& request) {
  // Only calls on the null stream depend on the current device: each device has its own null stream.
  std::optional<ScopedDevice> on_device;
  if (!resources_.stream) on_device.emplace(resources_.device);
  call(request);
}

void NcclIssuer::call(const IssueRequest& request) {
  const ncclComm_t comm = comm_.get();
  const cudaStream_t stream = resources_.stream;
  switch (request.kind) {
    case IssueRequest::Kind::all_reduce:
      if (resources_.kernel) return run_kernel(request);
      comm_.check(call_.all_reduce(request.send, request.recv, request.count, nccl_type(request.dtype),
                                   redop_of(request.redop, request.dtype), comm, stream),
                  "ncclAllReduce");
      return;
    case IssueRequest::Kind::reduce:
      comm_.check(call_.reduce(request.send, request.recv, request.count, nccl_type(request.dtype),
                               redop_of(request.redop, request.dtype), request.root, comm, stream),
                  "ncclReduce");
      return;
    case IssueRequest::Kind::reduce_scatter:
      comm_.check(call_.reduce_scatter(request.send, request.recv, request.count, nccl_type(request.dtype),
                                       redop_of(request.redop, request.dtype), comm, stream),
                  "ncclReduceScatter");
      return;
    case IssueRequest::Kind::all_gather:
      comm_.check(call_.all_gather(request.send, request.recv, request.count, nccl_type(request.dtype), comm, stream),
                  "ncclAllGather");
      return;
    case IssueRequest::Kind::broadcast:
      comm_.check(call_.broadcast(request.send, request.recv, request.count, nccl_type(request.dtype), request.root,
                                  comm, stream),
                  "ncclBroadcast");
      return;
    case IssueRequest::Kind::gather: gather(request); return;
    case IssueRequest::Kind::scatter: scatter(request); return;
    case IssueRequest::Kind::alltoall: alltoall(request); return;
    case IssueRequest::Kind::exchange: exchange(request.sends, request.recvs, request.dtype); return;
    case IssueRequest::Kind::copy: {
      const ScopedDevice on_device(resources_.device);
      check_cuda(launch_copy(reinterpret_cast<unsigned char*>(request.recv),
                             reinterpret_cast<const unsigned char*>(request.send), request.count, stream),
                 resources_.where, "copying on the GPU");
      return;
    }
    case IssueRequest::Kind::stamp: stamp(request.count); return;
    case IssueRequest::Kind::begin_capture: begin_capture(); return;
    case IssueRequest::Kind::end_capture: end_capture(); return;
    case IssueRequest::Kind::instantiate_graph: instantiate_graph(); return;
    case IssueRequest::Kind::issue_graph:
      check_cuda(cudaGraphLaunch(static_cast<CudaGraph*>(request.graph.get())->get(), stream), resources_.where,
                 "launching a CUDA graph");
      return;
    case IssueRequest::Kind::close_gate: {
      const ScopedDevice on_device(resources_.device);
      gate_.close(request.count, stream);
      return;
    }
    case IssueRequest::Kind::begin_group:
    case IssueRequest::Kind::end_group:
    case IssueRequest::Kind::synchronize: break;
  }
  throw std::logic_error("NcclIssuer: the launch group handles this kind of request itself");
}

void NcclIssuer::run_kernel(const IssueRequest& request) {
  const ScopedDevice on_device(resources_.device);
  resources_.kernel->run(request.send, request.recv, request.count, request.dtype, request.redop, resources_.stream);
}

void NcclIssuer::exchange(std::span<const Transfer> sends, std::span<const Transfer> recvs, Dtype dtype) {
  const ncclDataType_t type = nccl_type(dtype);
  begin_nccl_group();
  try {
    for (const Transfer& each : sends)
      if (each.count > 0)
        comm_.check(call_.send(each.data, each.count, type, each.peer, comm_.get(), resources_.stream), "ncclSend");
    for (const Transfer& each : recvs)
      if (each.count > 0)
        comm_.check(call_.recv(each.data, each.count, type, each.peer, comm_.get(), resources_.stream), "ncclRecv");
  } catch (...) {
    abort_nccl_group();
    throw;
  }
  end_nccl_group();
}

// If the library lacks these operations, they are made of sends and receives, as in nccl-tests. Sends only read their
// data.

void NcclIssuer::gather(const IssueRequest& request) {
  if (call_.gather)
    return comm_.check(call_.gather(request.send, request.recv, request.count, nccl_type(request.dtype), request.root,
                                    comm_.get(), resources_.stream),
                       "ncclGather");
  const Transfer mine{request.root, const_cast<std::byte*>(request.send), request.count};
  recvs_.clear();
  for (int peer = 0; resources_.rank == request.root && peer < resources_.ranks; ++peer)
    recvs_.push_back({peer, request.recv + request.count * size_bytes(request.dtype) * peer, request.count});
  exchange({&mine, 1}, recvs_, request.dtype);
}

void NcclIssuer::scatter(const IssueRequest& request) {
  if (call_.scatter)
    return comm_.check(call_.scatter(request.send, request.recv, request.count, nccl_type(request.dtype), request.root,
                                     comm_.get(), resources_.stream),
                       "ncclScatter");
  const Transfer mine{request.root, request.recv, request.count};
  sends_.clear();
  auto* const send = const_cast<std::byte*>(request.send);
  for (int peer = 0; resources_.rank == request.root && peer < resources_.ranks; ++peer)
    sends_.push_back({peer, send + request.count * size_bytes(request.dtype) * peer, request.count});
  exchange(sends_, {&mine, 1}, request.dtype);
}

void NcclIssuer::alltoall(const IssueRequest& request) {
  if (resources_.kernel) return run_kernel(request);
  if (call_.alltoall)
    return comm_.check(call_.alltoall(request.send, request.recv, request.count, nccl_type(request.dtype), comm_.get(),
                                      resources_.stream),
                       "ncclAlltoAll");
  const std::size_t part = request.count * size_bytes(request.dtype);
  auto* const send = const_cast<std::byte*>(request.send);
  sends_.clear();
  recvs_.clear();
  for (int peer = 0; peer < resources_.ranks; ++peer) {
    sends_.push_back({peer, send + part * peer, request.count});
    recvs_.push_back({peer, request.recv + part * peer, request.count});
  }
  exchange(sends_, recvs_, request.dtype);
}

/// In a capture, the event becomes a node of the graph, and each launch of the graph sets its time anew.
void NcclIssuer::stamp(std::size_t number) {
  const unsigned flags = is_capturing_ ? cudaEventRecordExternal : cudaEventRecordDefault;
  check_cuda(cudaEventRecordWithFlags(resources_.stamps[number].get(), resources_.stream, flags), resources_.where,
             "recording a CUDA event");
}

/// Thread-local mode restricts only this thread's calls. Other threads may allocate and copy meanwhile.
void NcclIssuer::begin_capture() {
  check_cuda(cudaStreamBeginCapture(resources_.stream, cudaStreamCaptureModeThreadLocal), resources_.where,
             "beginning the capture of a CUDA graph");
  is_capturing_ = true;
}

void NcclIssuer::end_capture() {
  is_capturing_ = false;
  check_cuda(cudaStreamEndCapture(resources_.stream, &captured_), resources_.where,
             "ending the capture of a CUDA graph");
}

/// Allocates memory, which this thread must not do while it captures for another rank.
void NcclIssuer::instantiate_graph() {
  const ScopedDevice on_device(resources_.device);
  graph_ = std::make_shared<CudaGraph>(captured_, resources_.stream, resources_.where);
  cudaGraphDestroy(std::exchange(captured_, nullptr));
}

void NcclIssuer::begin_nccl_group() { comm_.check(call_.group_start(), "ncclGroupStart"); }
void NcclIssuer::end_nccl_group() { comm_.check(call_.group_end(), "ncclGroupEnd"); }

/// Starting the group could wait for lost ranks. A call that fails makes the whole group fail, so that ncclGroupEnd
/// starts nothing.
void NcclIssuer::abort_nccl_group() noexcept {
  if (call_.all_reduce) call_.all_reduce(nullptr, nullptr, 0, ncclFloat32, ncclSum, nullptr, nullptr);
  call_.group_end();
}

bool NcclIssuer::finished() {
  std::optional<ScopedDevice> on_device;
  if (!resources_.stream) on_device.emplace(resources_.device);
  const cudaError_t state = cudaStreamQuery(resources_.stream);
  if (state == cudaErrorNotReady) {
    if (++poll_count_ % kPollsPerAsyncCheck == 0) comm_.check_async();
    return false;
  }
  check_cuda(state, resources_.where, "waiting for the GPU");
  gate_.check_in_time();
  return true;
}

void NcclIssuer::recover() noexcept {
  gate_.open_for_good();
  if (std::exchange(is_capturing_, false)) cudaStreamEndCapture(resources_.stream, &captured_);
  if (captured_) cudaGraphDestroy(std::exchange(captured_, nullptr));
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
    auto scalar = element_of<T>(mulsum_scalar(resources_.rank));
    comm_.check(call_.redop_create_premulsum(&made, &scalar, nccl_type(dtype), ncclScalarHostImmediate, comm_.get()),
                "ncclRedOpCreatePreMulSum");
  });
  return premulsums_[dtype] = made;
}

}  // namespace busbw
