// Loads NCCL's functions by name. The last argument of `load` is the first NCCL version with the function.
#include "backends/nccl/cuda/nccl_library.hpp"

#include <fmt/format.h>

namespace busbw {

std::string missing_function_error(const OpenedLibrary& library, const char* name) {
  return fmt::format("{} is required, but {} lacks it; name another library with --library", name, library.name_text());
}

std::string NcclLibrary::last_error() const {
  if (!call.get_last_error) return {};
  const char* const text = call.get_last_error(nullptr);
  return text ? text : "";
}

NcclLibrary load_nccl(const std::string& option) {
  NcclLibrary library{open_nccl(library_search(option, process_environment)), {}};
  NcclFunctions& call = library.call;
  call.get_version.load(library, "ncclGetVersion");
  call.get_unique_id.load(library, "ncclGetUniqueId");
  call.comm_init_rank.load(library, "ncclCommInitRank");
  call.comm_destroy.load(library, "ncclCommDestroy");
  call.comm_abort.load(library, "ncclCommAbort");
  call.comm_get_async_error.load(library, "ncclCommGetAsyncError");
  call.get_error_string.load(library, "ncclGetErrorString");
  call.get_last_error.load(library, "ncclGetLastError");
  call.group_start.load(library, "ncclGroupStart");
  call.group_end.load(library, "ncclGroupEnd");
  call.all_reduce.load(library, "ncclAllReduce");
  call.reduce.load(library, "ncclReduce");
  call.reduce_scatter.load(library, "ncclReduceScatter");
  call.all_gather.load(library, "ncclAllGather");
  call.broadcast.load(library, "ncclBroadcast");
  call.send.load(library, "ncclSend");
  call.recv.load(library, "ncclRecv");
  call.redop_create_premulsum.load(library, "ncclRedOpCreatePreMulSum");
  call.redop_destroy.load(library, "ncclRedOpDestroy");
  // Functions that only some flags need, or that are replaced by other functions if absent.
  call.mem_alloc.load(library, "ncclMemAlloc", 21900);
  call.mem_free.load(library, "ncclMemFree", 21900);
  call.comm_register.load(library, "ncclCommRegister", 21900);
  call.comm_deregister.load(library, "ncclCommDeregister", 21900);
  call.comm_init_rank_config.load(library, "ncclCommInitRankConfig");
  call.comm_window_register.load(library, "ncclCommWindowRegister", 22700);
  call.comm_window_deregister.load(library, "ncclCommWindowDeregister", 22700);
  call.alltoall.load(library, "ncclAlltoAll", 22800);
  call.gather.load(library, "ncclGather", 22800);
  call.scatter.load(library, "ncclScatter", 22800);
  call.put_signal.load(library, "ncclPutSignal", 22900);
  call.wait_signal.load(library, "ncclWaitSignal", 22900);
  call.comm_query_properties.load(library, "ncclCommQueryProperties", 22900);
  call.dev_comm_create.load(library, "ncclDevCommCreate", 22800);
  call.dev_comm_destroy.load(library, "ncclDevCommDestroy", 22800);
  call.team_lsa.load(library, "ncclTeamLsa", 22800);
  call.comm_init_rank_scalable.load(library, "ncclCommInitRankScalable", 22300);
  call.comm_user_rank.load(library, "ncclCommUserRank");
  call.comm_finalize.load(library, "ncclCommFinalize");
  call.comm_split.load(library, "ncclCommSplit", 21800);
  call.comm_shrink.load(library, "ncclCommShrink", 22700);
  call.comm_get_unique_id.load(library, "ncclCommGetUniqueId", 22900);
  call.comm_grow.load(library, "ncclCommGrow", 22900);
  return library;
}

}  // namespace busbw
