// Loads the functions of the real NCCL by name.
#include "fastpath/nccl/real_nccl.hpp"

#include <atomic>
#include <memory>
#include <new>

#include "fastpath/forward/real_library.hpp"

namespace busbw::fastpath {
namespace {

template <class Function>
void load_function(const OpenedLibrary& library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(library.find(name));
}

void load_functions(const OpenedLibrary& library, RealNccl& real) {
  load_function(library, "ncclGetVersion", real.get_version);
  load_function(library, "ncclGetErrorString", real.get_error_string);
  load_function(library, "ncclCommInitRank", real.comm_init_rank);
  load_function(library, "ncclCommInitRankConfig", real.comm_init_rank_config);
  load_function(library, "ncclCommInitRankScalable", real.comm_init_rank_scalable);
  load_function(library, "ncclCommInitAll", real.comm_init_all);
  load_function(library, "ncclCommSplit", real.comm_split);
  load_function(library, "ncclCommShrink", real.comm_shrink);
  load_function(library, "ncclCommGrow", real.comm_grow);
  load_function(library, "ncclCommFinalize", real.comm_finalize);
  load_function(library, "ncclCommDestroy", real.comm_destroy);
  load_function(library, "ncclCommAbort", real.comm_abort);
  load_function(library, "ncclCommRevoke", real.comm_revoke);
  load_function(library, "ncclCommGetAsyncError", real.comm_get_async_error);
  load_function(library, "ncclCommCount", real.comm_count);
  load_function(library, "ncclCommUserRank", real.comm_user_rank);
  load_function(library, "ncclCommCuDevice", real.comm_cu_device);
  load_function(library, "ncclCommWindowRegister", real.comm_window_register);
  load_function(library, "ncclCommWindowDeregister", real.comm_window_deregister);
  load_function(library, "ncclTeamLsa", real.team_lsa);
  load_function(library, "ncclGetPeerDevicePointer", real.get_peer_device_pointer);
  load_function(library, "ncclGroupStart", real.group_start);
  load_function(library, "ncclGroupEnd", real.group_end);
  load_function(library, "ncclGroupSimulateEnd", real.group_simulate_end);
  load_function(library, "ncclAllReduce", real.all_reduce);
  load_function(library, "ncclAllGather", real.all_gather);
  load_function(library, "ncclMemAlloc", real.mem_alloc);
  load_function(library, "ncclReduceScatter", real.reduce_scatter);
  load_function(library, "ncclBroadcast", real.broadcast);
  load_function(library, "ncclBcast", real.bcast);
  load_function(library, "ncclAlltoAll", real.alltoall);
  load_function(library, "ncclReduce", real.reduce);
  load_function(library, "ncclGather", real.gather);
  load_function(library, "ncclScatter", real.scatter);
  load_function(library, "ncclSend", real.send);
  load_function(library, "ncclRecv", real.recv);
}

}  // namespace

const RealNccl* real_nccl() noexcept {
  // Created without a lock and never freed, for the reasons in real_library().
  static std::atomic<const RealNccl*> process_nccl{nullptr};
  if (const auto* real = process_nccl.load(std::memory_order_acquire)) return real;
  const OpenedLibrary* const library = real_library();
  if (!library) return nullptr;
  std::unique_ptr<RealNccl> loaded(new (std::nothrow) RealNccl);
  if (!loaded) return nullptr;
  load_functions(*library, *loaded);
  const RealNccl* other_thread_nccl = nullptr;
  return process_nccl.compare_exchange_strong(other_thread_nccl, loaded.get(), std::memory_order_acq_rel)
             ? loaded.release()
             : other_thread_nccl;
}

}  // namespace busbw::fastpath
