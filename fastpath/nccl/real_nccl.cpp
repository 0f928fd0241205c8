#include "fastpath/nccl/real_nccl.hpp"

#include <atomic>
#include <memory>
#include <new>

#include "fastpath/forward/real_library.hpp"

namespace busbw::fastpath {
namespace {

template <class Function>
void find(const RealLibrary& library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(library.find(name));
}

void find_all(const RealLibrary& library, RealNccl& real) {
  find(library, "ncclGetVersion", real.get_version);
  find(library, "ncclGetErrorString", real.get_error_string);
  find(library, "ncclCommInitRank", real.comm_init_rank);
  find(library, "ncclCommInitRankConfig", real.comm_init_rank_config);
  find(library, "ncclCommInitRankScalable", real.comm_init_rank_scalable);
  find(library, "ncclCommInitAll", real.comm_init_all);
  find(library, "ncclCommSplit", real.comm_split);
  find(library, "ncclCommShrink", real.comm_shrink);
  find(library, "ncclCommGrow", real.comm_grow);
  find(library, "ncclCommFinalize", real.comm_finalize);
  find(library, "ncclCommDestroy", real.comm_destroy);
  find(library, "ncclCommAbort", real.comm_abort);
  find(library, "ncclCommRevoke", real.comm_revoke);
  find(library, "ncclCommGetAsyncError", real.comm_get_async_error);
  find(library, "ncclCommCount", real.comm_count);
  find(library, "ncclCommUserRank", real.comm_user_rank);
  find(library, "ncclCommCuDevice", real.comm_cu_device);
  find(library, "ncclCommWindowRegister", real.comm_window_register);
  find(library, "ncclCommWindowDeregister", real.comm_window_deregister);
  find(library, "ncclTeamLsa", real.team_lsa);
  find(library, "ncclGetPeerDevicePointer", real.get_peer_device_pointer);
  find(library, "ncclGroupStart", real.group_start);
  find(library, "ncclGroupEnd", real.group_end);
  find(library, "ncclGroupSimulateEnd", real.group_simulate_end);
  find(library, "ncclAllReduce", real.all_reduce);
  find(library, "ncclAllGather", real.all_gather);
  find(library, "ncclMemAlloc", real.mem_alloc);
  find(library, "ncclReduceScatter", real.reduce_scatter);
  find(library, "ncclBroadcast", real.broadcast);
  find(library, "ncclBcast", real.bcast);
  find(library, "ncclAlltoAll", real.alltoall);
  find(library, "ncclReduce", real.reduce);
  find(library, "ncclGather", real.gather);
  find(library, "ncclScatter", real.scatter);
  find(library, "ncclSend", real.send);
  find(library, "ncclRecv", real.recv);
}

}  // namespace

const RealNccl* real_nccl() noexcept {
  // Created without a lock and never freed, for the reasons in real_library().
  static std::atomic<const RealNccl*> kept{nullptr};
  if (const auto* real = kept.load(std::memory_order_acquire)) return real;
  const RealLibrary* const library = real_library();
  if (!library) return nullptr;
  std::unique_ptr<RealNccl> mine(new (std::nothrow) RealNccl);
  if (!mine) return nullptr;
  find_all(*library, *mine);
  const RealNccl* first = nullptr;
  return kept.compare_exchange_strong(first, mine.get(), std::memory_order_acq_rel) ? mine.release() : first;
}

}  // namespace busbw::fastpath
