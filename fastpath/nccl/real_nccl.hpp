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

/// Functions of the real library. A function that the library lacks is null. Types are written out for functions that
/// some supported versions of NCCL's header do not declare.
struct RealNccl {
  decltype(&::ncclGetVersion) get_version = nullptr;
  decltype(&::ncclGetErrorString) get_error_string = nullptr;

  decltype(&::ncclCommInitRank) comm_init_rank = nullptr;
  decltype(&::ncclCommInitRankConfig) comm_init_rank_config = nullptr;
  decltype(&::ncclCommInitRankScalable) comm_init_rank_scalable = nullptr;
  decltype(&::ncclCommInitAll) comm_init_all = nullptr;
  decltype(&::ncclCommSplit) comm_split = nullptr;
  decltype(&::ncclCommShrink) comm_shrink = nullptr;
  ncclResult_t (*comm_grow)(ncclComm_t comm, int ranks, const ncclUniqueId* id, int rank, ncclComm_t* grown,
                            ncclConfig_t* config) = nullptr;
  decltype(&::ncclCommFinalize) comm_finalize = nullptr;
  decltype(&::ncclCommDestroy) comm_destroy = nullptr;
  decltype(&::ncclCommAbort) comm_abort = nullptr;
  ncclResult_t (*comm_revoke)(ncclComm_t comm, int flags) = nullptr;
  decltype(&::ncclCommGetAsyncError) comm_get_async_error = nullptr;
  decltype(&::ncclCommCount) comm_count = nullptr;
  decltype(&::ncclCommUserRank) comm_user_rank = nullptr;
  decltype(&::ncclCommCuDevice) comm_cu_device = nullptr;

  decltype(&::ncclCommWindowRegister) comm_window_register = nullptr;
  decltype(&::ncclCommWindowDeregister) comm_window_deregister = nullptr;
  NcclTeam (*team_lsa)(ncclComm_t comm) = nullptr;
  ncclResult_t (*get_peer_device_pointer)(ncclWindow_t window, size_t offset, int peer, void** address) = nullptr;

  decltype(&::ncclGroupStart) group_start = nullptr;
  decltype(&::ncclGroupEnd) group_end = nullptr;
  decltype(&::ncclGroupSimulateEnd) group_simulate_end = nullptr;

  decltype(&::ncclAllReduce) all_reduce = nullptr;
  decltype(&::ncclAllGather) all_gather = nullptr;
  decltype(&::ncclMemAlloc) mem_alloc = nullptr;  // since NCCL 2.19
  decltype(&::ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&::ncclBroadcast) broadcast = nullptr;
  decltype(&::ncclBcast) bcast = nullptr;
  decltype(&::ncclAlltoAll) alltoall = nullptr;
  decltype(&::ncclReduce) reduce = nullptr;
  decltype(&::ncclGather) gather = nullptr;
  decltype(&::ncclScatter) scatter = nullptr;
  decltype(&::ncclSend) send = nullptr;
  decltype(&::ncclRecv) recv = nullptr;
};

/// Returns the functions of this process's real library. Null if there is no real library, which real_library() has
/// reported on stderr.
const RealNccl* real_nccl() noexcept;

}  // namespace busbw::fastpath
