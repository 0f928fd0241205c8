// NCCL's operations that have no fast path and are always delegated to NCCL. Their streams are recorded in the open
// group, because the group may also have fast-path calls, which must be ordered relative to these operations.
#include <nccl.h>

#include <exception>

#include "common/support/stderr_message.hpp"
#include "fastpath/communicator/call_group.hpp"
#include "fastpath/exports/exported.hpp"
#include "fastpath/exports/missing_function.hpp"
#include "fastpath/nccl/real_nccl.hpp"

namespace busbw::fastpath {
namespace {

/// Calls a function of the real library with `arguments` followed by `communicator` and `stream`. If the library lacks
/// the function, reports that under `name`.
template <class... Types, class... Arguments>
ncclResult_t delegate(ncclResult_t (*RealNccl::*function)(Types...), const char* name, ncclComm_t communicator,
                      cudaStream_t stream, Arguments... arguments) noexcept try {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->*function == nullptr) return report_missing_function(name);
  if (CallGroup::is_open()) CallGroup::of_this_thread().add_delegated_call(communicator, stream);
  return (nccl->*function)(arguments..., communicator, stream);
} catch (const std::exception& error) {
  print_stderr("libbusbw_nccl.so", error.what());
  return ncclSystemError;
}

}  // namespace
}  // namespace busbw::fastpath

using namespace busbw::fastpath;

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
