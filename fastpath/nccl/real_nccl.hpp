#pragma once
// Typed pointers to the functions of the real NCCL that the fast path calls.
#include <nccl.h>

namespace busbw::fastpath {

/// Copy of ncclTeam, which NCCL declares in the header of its device API.
struct NcclTeam {
  int ranks;
  int rank;
  int stride;
};

/// Functions that all supported versions of NCCL's header declare. Each line: member of RealNccl, name of the function.
#define FASTPATH_REAL_FUNCTIONS(FUNCTION)                     \
  FUNCTION(get_version, ncclGetVersion)                       \
  FUNCTION(comm_init_rank, ncclCommInitRank)                  \
  FUNCTION(comm_init_rank_config, ncclCommInitRankConfig)     \
  FUNCTION(comm_init_rank_scalable, ncclCommInitRankScalable) \
  FUNCTION(comm_init_all, ncclCommInitAll)                    \
  FUNCTION(comm_split, ncclCommSplit)                         \
  FUNCTION(comm_shrink, ncclCommShrink)                       \
  FUNCTION(comm_finalize, ncclCommFinalize)                   \
  FUNCTION(comm_destroy, ncclCommDestroy)                     \
  FUNCTION(comm_abort, ncclCommAbort)                         \
  FUNCTION(comm_get_async_error, ncclCommGetAsyncError)       \
  FUNCTION(comm_count, ncclCommCount)                         \
  FUNCTION(comm_user_rank, ncclCommUserRank)                  \
  FUNCTION(comm_cu_device, ncclCommCuDevice)                  \
  FUNCTION(comm_window_register, ncclCommWindowRegister)      \
  FUNCTION(comm_window_deregister, ncclCommWindowDeregister)  \
  FUNCTION(group_start, ncclGroupStart)                       \
  FUNCTION(group_end, ncclGroupEnd)                           \
  FUNCTION(group_simulate_end, ncclGroupSimulateEnd)          \
  FUNCTION(all_reduce, ncclAllReduce)                         \
  FUNCTION(all_gather, ncclAllGather)                         \
  FUNCTION(mem_alloc, ncclMemAlloc)                           \
  FUNCTION(reduce_scatter, ncclReduceScatter)                 \
  FUNCTION(broadcast, ncclBroadcast)                          \
  FUNCTION(bcast, ncclBcast)                                  \
  FUNCTION(alltoall, ncclAlltoAll)                            \
  FUNCTION(reduce, ncclReduce)                                \
  FUNCTION(gather, ncclGather)                                \
  FUNCTION(scatter, ncclScatter)                              \
  FUNCTION(send, ncclSend)                                    \
  FUNCTION(recv, ncclRecv)

/// Functions of the real library. A function that the library lacks is null. The last members have written-out types,
/// because some supported versions of NCCL's header do not declare these functions.
struct RealNccl {
#define FASTPATH_MEMBER(member, name) decltype(&::name) member = nullptr;
  FASTPATH_REAL_FUNCTIONS(FASTPATH_MEMBER)
#undef FASTPATH_MEMBER
  ncclResult_t (*comm_revoke)(ncclComm_t comm, int flags) = nullptr;
  NcclTeam (*team_lsa)(ncclComm_t comm) = nullptr;
  ncclResult_t (*get_peer_device_pointer)(ncclWindow_t window, size_t offset, int peer, void** address) = nullptr;
};

/// Returns the functions of this process's real library. Null if there is no real library: then real_library() has
/// printed the error to stderr.
const RealNccl* real_nccl() noexcept;

}  // namespace busbw::fastpath
