// NCCL's collectives as programs call them. run() sends a call to the fast path, or to the real NCCL in these cases:
//
// - The communicator has no fast path.
// - The fast path does not support the type or the operator of the call.
// - The selected method is `nccl` (choice/method_selector.hpp).
//
// delegate() always calls the real NCCL, for operations without a fast path. The open group orders delegated calls with
// the fast-path calls of the same communicator. So both functions record delegated calls in the open group; run() omits
// those of communicators without a fast path.
#include <nccl.h>

#include <exception>
#include <optional>
#include <vector>

#include "common/support/stderr_message.hpp"
#include "fastpath/choice/method_log.hpp"
#include "fastpath/communicator/call_group.hpp"
#include "fastpath/communicator/communicator_registry.hpp"
#include "fastpath/exports/exported.hpp"
#include "fastpath/exports/missing_function.hpp"
#include "fastpath/nccl/real_nccl.hpp"

namespace busbw::fastpath {
namespace {

/// Returns the size of an element of an NCCL type. Nothing for types that are newer than this code.
std::optional<std::size_t> element_size_bytes(ncclDataType_t type) {
  switch (static_cast<int>(type)) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64: return 8;
    default: return std::nullopt;
  }
}

/// Returns the element type, or `bytes` for types that the fast path moves but cannot reduce.
ElementType element_type(ncclDataType_t type) {
  switch (static_cast<int>(type)) {
    case ncclFloat16: return ElementType::float16;
    case ncclBfloat16: return ElementType::bfloat16;
    case ncclFloat32: return ElementType::float32;
    default: return ElementType::bytes;
  }
}

/// Returns the operator. Nothing for operators that only NCCL can apply.
std::optional<Redop> redop_from_nccl(ncclRedOp_t op) {
  switch (static_cast<int>(op)) {
    case ncclSum: return Redop::sum;
    case ncclProd: return Redop::prod;
    case ncclMin: return Redop::min;
    case ncclMax: return Redop::max;
    case ncclAvg: return Redop::avg;
    default: return std::nullopt;  // an operator that the program has created
  }
}

/// Translates NCCL's arguments. `op` is empty for collectives that do not reduce, and `root` is 0 for those without a
/// root. Returns nothing if the type or the operator is unknown here, or `receive` is null.
std::optional<CollectiveCall> make_call(Collective collective, const void* send, void* receive, std::size_t count,
                                        ncclDataType_t type, std::optional<ncclRedOp_t> op = {}, int root = 0) {
  const auto element_bytes = element_size_bytes(type);
  if (!element_bytes || receive == nullptr) return std::nullopt;
  CollectiveCall call;
  call.collective = collective;
  call.send = send;
  call.receive = receive;
  call.bytes = count * *element_bytes;
  call.element = element_type(type);
  call.root = root;
  if (op) {
    const auto redop = redop_from_nccl(*op);
    if (!redop) return std::nullopt;
    call.redop = *redop;
  }
  return call;
}

/// Adds a call that is delegated to NCCL to the open group, if there is one.
void record_delegated(ncclComm_t communicator, cudaStream_t stream) {
  if (CallGroup::is_open()) CallGroup::of_this_thread().add_delegated_call(communicator, stream);
}

/// If the method of the call is not `nccl`, queues the call on the fast path, or adds it to the open group. Returns the
/// result for the program, or nothing if the caller must call NCCL. `call` is empty if make_call() returned nothing.
std::optional<ncclResult_t> try_fast_path(ncclComm_t communicator, const std::optional<CollectiveCall>& call,
                                          cudaStream_t stream, const RealNccl& nccl) noexcept try {
  FastCommunicator* fast = CommunicatorRegistry::instance().find(communicator);
  if (fast == nullptr) return std::nullopt;
  if (!call) {
    record_delegated(communicator, stream);
    return std::nullopt;
  }
  const MethodConfig config = fast->clique->select_config_for_call(*call);
  const CliqueRank& clique = *fast->clique;
  if (log().is_on())
    log().log_operation({.collective = call->collective,
                         .type = name(call->element),
                         .size_bytes = size_bytes(*call, clique.ranks()),
                         .ranks = clique.ranks(),
                         .in_place = is_in_place(*call, clique.rank()),
                         .config = config});
  if (config.method == Method::nccl) {
    record_delegated(communicator, stream);
    return std::nullopt;
  }
  fast->report_mismatches();
  const PendingCall pending{communicator, fast->shared_from_this(), *call, config, stream};
  if (CallGroup::is_open()) {
    CallGroup::of_this_thread().add_fast_call(pending);
    return ncclSuccess;
  }
  if (fast->verifier) return queue_calls(std::vector{pending}, nccl);  // also queues the check of the result
  return queue_call(pending);
} catch (const std::exception& error) {
  print_stderr("libbusbw_nccl.so", error.what());
  return ncclSystemError;
}

/// Runs a call on the fast path, or else calls a function of the real library with `arguments` followed by
/// `communicator` and `stream`. If the library lacks the function, reports that under `name`.
template <class... Types, class... Arguments>
ncclResult_t run(const std::optional<CollectiveCall>& call, ncclResult_t (*RealNccl::*function)(Types...),
                 const char* name, ncclComm_t communicator, cudaStream_t stream, Arguments... arguments) noexcept {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->*function == nullptr) return report_missing_function(name);
  if (const auto result = try_fast_path(communicator, call, stream, *nccl)) return *result;
  return (nccl->*function)(arguments..., communicator, stream);
}

/// Like run(), for an operation without a fast path: always calls the function of the real library.
template <class... Types, class... Arguments>
ncclResult_t delegate(ncclResult_t (*RealNccl::*function)(Types...), const char* name, ncclComm_t communicator,
                      cudaStream_t stream, Arguments... arguments) noexcept try {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->*function == nullptr) return report_missing_function(name);
  record_delegated(communicator, stream);
  return (nccl->*function)(arguments..., communicator, stream);
} catch (const std::exception& error) {
  print_stderr("libbusbw_nccl.so", error.what());
  return ncclSystemError;
}

}  // namespace
}  // namespace busbw::fastpath

using namespace busbw::fastpath;

FASTPATH_EXPORT ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return run(make_call(Collective::all_reduce, sendbuff, recvbuff, count, datatype, op), &RealNccl::all_reduce,
             "ncclAllReduce", comm, stream, sendbuff, recvbuff, count, datatype, op);
}

FASTPATH_EXPORT ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                               cudaStream_t stream) {
  return run(make_call(Collective::reduce_scatter, sendbuff, recvbuff, recvcount, datatype, op),
             &RealNccl::reduce_scatter, "ncclReduceScatter", comm, stream, sendbuff, recvbuff, recvcount, datatype, op);
}

FASTPATH_EXPORT ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return run(make_call(Collective::all_gather, sendbuff, recvbuff, sendcount, datatype), &RealNccl::all_gather,
             "ncclAllGather", comm, stream, sendbuff, recvbuff, sendcount, datatype);
}

FASTPATH_EXPORT ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                          ncclComm_t comm, cudaStream_t stream) {
  return run(make_call(Collective::alltoall, sendbuff, recvbuff, count, datatype), &RealNccl::alltoall, "ncclAlltoAll",
             comm, stream, sendbuff, recvbuff, count, datatype);
}

FASTPATH_EXPORT ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                           int root, ncclComm_t comm, cudaStream_t stream) {
  return run(make_call(Collective::broadcast, sendbuff, recvbuff, count, datatype, /*op=*/{}, root),
             &RealNccl::broadcast, "ncclBroadcast", comm, stream, sendbuff, recvbuff, count, datatype, root);
}

FASTPATH_EXPORT ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                                       cudaStream_t stream) {
  return run(make_call(Collective::broadcast, buff, buff, count, datatype, /*op=*/{}, root), &RealNccl::bcast,
             "ncclBcast", comm, stream, buff, count, datatype, root);
}

FASTPATH_EXPORT ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return delegate(&RealNccl::reduce, "ncclReduce", comm, stream, sendbuff, recvbuff, count, datatype, op, root);
}

FASTPATH_EXPORT ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                        int root, ncclComm_t comm, cudaStream_t stream) {
  return delegate(&RealNccl::gather, "ncclGather", comm, stream, sendbuff, recvbuff, count, datatype, root);
}

FASTPATH_EXPORT ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                         int root, ncclComm_t comm, cudaStream_t stream) {
  return delegate(&RealNccl::scatter, "ncclScatter", comm, stream, sendbuff, recvbuff, count, datatype, root);
}

FASTPATH_EXPORT ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                                      ncclComm_t comm, cudaStream_t stream) {
  return delegate(&RealNccl::send, "ncclSend", comm, stream, sendbuff, count, datatype, peer);
}

FASTPATH_EXPORT ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                                      cudaStream_t stream) {
  return delegate(&RealNccl::recv, "ncclRecv", comm, stream, recvbuff, count, datatype, peer);
}
