// Maps each kind of request to calls of NCCL and CUDA. They run in the thread of the launch group's leader.
#include "backends/nccl/cuda/nccl_issuer.hpp"

#include <fmt/format.h>

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

/// Converts a whole number to an element. Small float types cannot be cast from a number, only rounded to.
template <class T>
T make_element(double value) {
  if constexpr (kIsFloat<T>) {
    return round_to<T>(value);
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace

NcclIssuer::NcclIssuer(const NcclLibrary& library, NcclComm& comm, RankResources resources, CudaGate& gate)
    : nccl_(library.call), comm_(comm), resources_(std::move(resources)), gate_(gate) {}

NcclIssuer::~NcclIssuer() {
  for (const auto& [dtype, redop] : premulsums_) nccl_.redop_destroy(redop, comm_.get());
}

void NcclIssuer::run(const IssueRequest& request) {
  // The null stream is that of the current device, so the rank's device becomes current. Other streams belong to a
  // device, and launches of kernels set the current device themselves.
  std::optional<ScopedDevice> on_device;
  if (!resources_.stream) on_device.emplace(resources_.device);
  is_waiting_ = false;
  finish_calls();
  dispatch(request);
}

void NcclIssuer::dispatch(const IssueRequest& request) {
  const ncclComm_t comm = comm_.get();
  const cudaStream_t stream = resources_.stream;
  switch (request.kind) {
    case IssueRequest::Kind::all_reduce:
      if (resources_.kernel) return run_kernel(request);
      comm_.check(nccl_.all_reduce(request.send, request.recv, request.count, nccl_type(request.dtype),
                                   nccl_redop(request.redop, request.dtype), comm, stream),
                  "ncclAllReduce");
      return;
    case IssueRequest::Kind::reduce:
      comm_.check(nccl_.reduce(request.send, request.recv, request.count, nccl_type(request.dtype),
                               nccl_redop(request.redop, request.dtype), request.root, comm, stream),
                  "ncclReduce");
      return;
    case IssueRequest::Kind::reduce_scatter:
      comm_.check(nccl_.reduce_scatter(request.send, request.recv, request.count, nccl_type(request.dtype),
                                       nccl_redop(request.redop, request.dtype), comm, stream),
                  "ncclReduceScatter");
      return;
    case IssueRequest::Kind::all_gather:
      comm_.check(nccl_.all_gather(request.send, request.recv, request.count, nccl_type(request.dtype), comm, stream),
                  "ncclAllGather");
      return;
    case IssueRequest::Kind::broadcast:
      comm_.check(nccl_.broadcast(request.send, request.recv, request.count, nccl_type(request.dtype), request.root,
                                  comm, stream),
                  "ncclBroadcast");
      return;
    case IssueRequest::Kind::gather: gather(request); return;
    case IssueRequest::Kind::scatter: scatter(request); return;
    case IssueRequest::Kind::alltoall: alltoall(request); return;
    case IssueRequest::Kind::put: put(request.puts, request.awaited_puts, request.dtype); return;
    case IssueRequest::Kind::exchange: exchange(request.sends, request.recvs, request.dtype); return;
    case IssueRequest::Kind::copy: {
      const ScopedDevice on_device(resources_.device);
      check_cuda(launch_copy(reinterpret_cast<unsigned char*>(request.recv),
                             reinterpret_cast<const unsigned char*>(request.send), request.count, stream),
                 resources_.rank_text, "copying on the GPU");
      return;
    }
    case IssueRequest::Kind::record_timestamp: record_timestamp(request.count); return;
    case IssueRequest::Kind::begin_capture: begin_capture(); return;
    case IssueRequest::Kind::end_capture: end_capture(); return;
    case IssueRequest::Kind::instantiate_graph: instantiate_graph(); return;
    case IssueRequest::Kind::issue_graph:
      check_cuda(cudaGraphLaunch(static_cast<CudaGraph*>(request.graph.get())->get(), stream), resources_.rank_text,
                 "launching a CUDA graph");
      return;
    case IssueRequest::Kind::close_gate: {
      const ScopedDevice on_device(resources_.device);
      gate_.close(request.count, stream);
      last_closing_ = request.count;
      return;
    }
    case IssueRequest::Kind::begin_nccl_group:
    case IssueRequest::Kind::end_nccl_group:
    case IssueRequest::Kind::synchronize: break;
  }
  throw std::logic_error("NcclIssuer: the launch group handles this kind of request itself");
}

void NcclIssuer::run_kernel(const IssueRequest& request) {
  const ScopedDevice on_device(resources_.device);
  resources_.kernel->run(request.send, request.recv, request.count, request.dtype, request.redop, resources_.stream);
}

void NcclIssuer::exchange(std::span<const Transfer> sends, std::span<const Transfer> recvs, Dtype dtype) {
  if (stall_limit_) {
    for (const Transfer& transfer : sends) awaited_peers_.insert(transfer.peer);
    for (const Transfer& transfer : recvs) awaited_peers_.insert(transfer.peer);
  }
  if (!comm_.get()) return give_up_awaited_peers();  // this rank has left the communicator
  const ncclDataType_t type = nccl_type(dtype);
  issue_in_group([&] {
    for (const Transfer& transfer : sends)
      if (transfer.count > 0)
        check_call(
            nccl_.send(transfer.data, transfer.count, type, comm_rank(transfer.peer), comm_.get(), resources_.stream),
            "ncclSend");
    for (const Transfer& transfer : recvs)
      if (transfer.count > 0)
        check_call(
            nccl_.recv(transfer.data, transfer.count, type, comm_rank(transfer.peer), comm_.get(), resources_.stream),
            "ncclRecv");
  });
}

void NcclIssuer::put(std::span<const Put> puts, std::span<const AwaitedPut> awaited, Dtype dtype) {
  issue_in_group([&] {
    for (const Put& put : puts) {
      const WindowAddress target = resources_.registration->locate(put.destination);
      comm_.check(nccl_.put_signal(put.data, put.count, nccl_type(dtype), put.peer, target.window, target.offset_bytes,
                                   /*signal=*/0, put.context, /*flags=*/0, comm_.get(), resources_.stream),
                  "ncclPutSignal");
    }
  });
  if (awaited.empty()) return;
  awaited_signals_.clear();
  for (const AwaitedPut& put : awaited)
    awaited_signals_.push_back({.count = 1, .peer = put.source, .context = put.context});
  comm_.check(nccl_.wait_signal(static_cast<int>(awaited_signals_.size()), awaited_signals_.data(), comm_.get(),
                                resources_.stream),
              "ncclWaitSignal");
}

template <class Issue>
void NcclIssuer::issue_in_group(const Issue& issue) {
  begin_nccl_group();
  try {
    issue();
  } catch (...) {
    abort_nccl_group();
    throw;
  }
  end_nccl_group();
}

// If the library lacks gather, scatter or alltoall, the operation is made of sends and receives, as in nccl-tests.

void NcclIssuer::gather(const IssueRequest& request) {
  if (nccl_.gather)
    return comm_.check(nccl_.gather(request.send, request.recv, request.count, nccl_type(request.dtype), request.root,
                                    comm_.get(), resources_.stream),
                       "ncclGather");
  const Transfer own_transfer = make_send(request.root, request.send, request.count);
  const bool is_root = resources_.rank == request.root;
  const int sources = is_root ? resources_.ranks : 0;
  recvs_.clear();
  for (int peer = 0; peer < sources; ++peer)
    recvs_.push_back({peer, request.recv + request.count * size_bytes(request.dtype) * peer, request.count});
  exchange({&own_transfer, 1}, recvs_, request.dtype);
}

void NcclIssuer::scatter(const IssueRequest& request) {
  if (nccl_.scatter)
    return comm_.check(nccl_.scatter(request.send, request.recv, request.count, nccl_type(request.dtype), request.root,
                                     comm_.get(), resources_.stream),
                       "ncclScatter");
  const Transfer own_transfer{request.root, request.recv, request.count};
  const bool is_root = resources_.rank == request.root;
  const int destinations = is_root ? resources_.ranks : 0;
  sends_.clear();
  for (int peer = 0; peer < destinations; ++peer)
    sends_.push_back(make_send(peer, request.send + request.count * size_bytes(request.dtype) * peer, request.count));
  exchange(sends_, {&own_transfer, 1}, request.dtype);
}

void NcclIssuer::alltoall(const IssueRequest& request) {
  if (resources_.kernel) return run_kernel(request);
  if (nccl_.alltoall)
    return comm_.check(nccl_.alltoall(request.send, request.recv, request.count, nccl_type(request.dtype), comm_.get(),
                                      resources_.stream),
                       "ncclAlltoAll");
  const std::size_t chunk_bytes = request.count * size_bytes(request.dtype);
  sends_.clear();
  recvs_.clear();
  for (int peer = 0; peer < resources_.ranks; ++peer) {
    sends_.push_back(make_send(peer, request.send + chunk_bytes * peer, request.count));
    recvs_.push_back({peer, request.recv + chunk_bytes * peer, request.count});
  }
  exchange(sends_, recvs_, request.dtype);
}

/// In a capture, the event becomes a node of the graph, and each launch of the graph sets its time anew.
void NcclIssuer::record_timestamp(std::size_t number) {
  const unsigned flags = is_capturing_ ? cudaEventRecordExternal : cudaEventRecordDefault;
  check_cuda(cudaEventRecordWithFlags(resources_.timestamp_events[number].get(), resources_.stream, flags),
             resources_.rank_text, "recording a CUDA event");
  if (stall_limit_) pending_timestamps_.push_back(number);
}

/// In thread-local mode, calls such as allocation and copy fail in this thread during the capture, but not in others.
void NcclIssuer::begin_capture() {
  check_cuda(cudaStreamBeginCapture(resources_.stream, cudaStreamCaptureModeThreadLocal), resources_.rank_text,
             "beginning the capture of a CUDA graph");
  is_capturing_ = true;
}

void NcclIssuer::end_capture() {
  is_capturing_ = false;
  check_cuda(cudaStreamEndCapture(resources_.stream, &captured_), resources_.rank_text,
             "ending the capture of a CUDA graph");
}

/// A separate request after all captures have ended: instantiation allocates memory, which fails while this thread
/// captures for any rank.
void NcclIssuer::instantiate_graph() {
  const ScopedDevice on_device(resources_.device);
  graph_ = std::make_shared<CudaGraph>(captured_, resources_.stream, resources_.rank_text);
  cudaGraphDestroy(std::exchange(captured_, nullptr));
}

void NcclIssuer::begin_nccl_group() { comm_.check(nccl_.group_start(), "ncclGroupStart"); }
void NcclIssuer::end_nccl_group() { check_call(nccl_.group_end(), "ncclGroupEnd"); }

/// Ends the group without starting its operations, which could wait for lost ranks. The call of ncclAllReduce here is
/// invalid on purpose: after an invalid call in the group, ncclGroupEnd starts nothing.
void NcclIssuer::abort_nccl_group() noexcept {
  if (nccl_.all_reduce) nccl_.all_reduce(nullptr, nullptr, 0, ncclFloat32, ncclSum, nullptr, nullptr);
  nccl_.group_end();
}

bool NcclIssuer::has_finished() {
  std::optional<ScopedDevice> on_device;
  if (!resources_.stream) on_device.emplace(resources_.device);
  if (stall_limit_ && !is_waiting_) {  // the limit counts from the first poll after a request
    is_waiting_ = true;
    stall_limit_->restart();
  }
  finish_calls();
  const cudaError_t state = cudaStreamQuery(resources_.stream);
  if (state == cudaErrorNotReady) {
    if (++poll_count_ % kPollsPerAsyncCheck == 0) {
      if (stall_limit_)
        leave_if_stalled();
      else
        comm_.check_async();
    }
    return false;
  }
  check_cuda(state, resources_.rank_text, "waiting for the GPU");
  gate_.require_not_expired();
  awaited_peers_.clear();
  pending_timestamps_.clear();
  return true;
}

void NcclIssuer::check_call(ncclResult_t result, const char* activity) {
  if (comm_.survives_losses() && may_be_error_of_peer(result))
    call_error_ = result;
  else
    comm_.check_call(result, activity);
}

void NcclIssuer::finish_calls() {
  if (!stall_limit_ || !comm_.get()) return;
  const ncclResult_t error = std::exchange(call_error_, ncclSuccess);
  const ncclResult_t state = error == ncclSuccess ? comm_.finish_calls(limit_s_) : error;
  if (state == ncclInProgress) return leave_after_timeout();
  handle_state(state);
}

bool NcclIssuer::has_progressed() {
  const auto is_reached = [&](std::size_t number) {
    return cudaEventQuery(resources_.timestamp_events[number].get()) == cudaSuccess;
  };
  bool is_any_reached = false;
  while (!pending_timestamps_.empty() && is_reached(pending_timestamps_.front())) {
    pending_timestamps_.pop_front();
    is_any_reached = true;
  }
  return is_any_reached;
}

void NcclIssuer::leave_if_stalled() {
  if (!comm_.get()) return;  // the communicator was aborted, so its operations end soon
  handle_state(comm_.state());
  if (has_progressed()) stall_limit_->restart();
  if (comm_.get() && stall_limit_->has_passed()) leave_after_timeout();
}

void NcclIssuer::handle_state(ncclResult_t state) {
  if (state == ncclInProgress) return;
  if (may_be_error_of_peer(state))
    leave(comm_.failure_text(state, "a flow"));
  else
    comm_.check(state, "a flow");
}

void NcclIssuer::leave(const std::string& reason) {
  leave_reason_ = reason;
  gate_.open(last_closing_);  // NCCL may wait for operations behind it
  comm_.abort();
  give_up_awaited_peers();
}

void NcclIssuer::give_up_awaited_peers() {
  for (const int peer : std::exchange(awaited_peers_, {})) failed_peers_.emplace(peer, leave_reason_);
}

void NcclIssuer::leave_after_timeout() {
  leave(fmt::format("timed out: no operation of NCCL ended within {:g} s", limit_s_));
}

void NcclIssuer::continue_with(const std::vector<int>& ranks) {
  comm_ranks_.clear();
  for (const int rank : ranks) comm_ranks_.emplace(rank, static_cast<int>(comm_ranks_.size()));
  awaited_peers_.clear();
  failed_peers_.clear();
  call_error_ = ncclSuccess;
}

void NcclIssuer::recover() noexcept {
  gate_.open_for_good();
  if (std::exchange(is_capturing_, false)) cudaStreamEndCapture(resources_.stream, &captured_);
  if (captured_) cudaGraphDestroy(std::exchange(captured_, nullptr));
}

ncclRedOp_t NcclIssuer::nccl_redop(Redop redop, Dtype dtype) {
  switch (redop) {
    case Redop::sum: return ncclSum;
    case Redop::prod: return ncclProd;
    case Redop::max: return ncclMax;
    case Redop::min: return ncclMin;
    case Redop::avg: return ncclAvg;
    case Redop::mulsum: break;
  }
  const auto cached = premulsums_.find(dtype);
  if (cached != premulsums_.end()) return cached->second;
  ncclRedOp_t premulsum{};
  with_element_type(dtype, [&]<class T>() {
    auto scalar = make_element<T>(mulsum_scalar(resources_.rank));
    comm_.check(
        nccl_.redop_create_premulsum(&premulsum, &scalar, nccl_type(dtype), ncclScalarHostImmediate, comm_.get()),
        "ncclRedOpCreatePreMulSum");
  });
  return premulsums_[dtype] = premulsum;
}

}  // namespace busbw
