#include "backends/nccl/cuda/nccl_library.hpp"

#include <fmt/format.h>

namespace busbw {

std::string missing_function_error(const OpenedLibrary& library, const char* name) {
  return fmt::format("{} is required, but {} lacks it; name another library with --library", name, library.named());
}

std::string NcclLibrary::last_error() const {
  if (!call.get_last_error) return {};
  const char* const text = call.get_last_error(nullptr);
  return text ? text : "";
}

NcclLibrary load_nccl(const std::string& option) {
  NcclLibrary library{open_nccl(library_search(option, process_environment)), {}};
  NcclFunctions& call = library.call;
  call.get_version.take(library, "ncclGetVersion");
  call.get_unique_id.take(library, "ncclGetUniqueId");
  call.comm_init_rank.take(library, "ncclCommInitRank");
  call.comm_destroy.take(library, "ncclCommDestroy");
  call.comm_abort.take(library, "ncclCommAbort");
  call.comm_get_async_error.take(library, "ncclCommGetAsyncError");
  call.get_error_string.take(library, "ncclGetErrorString");
  call.get_last_error.take(library, "ncclGetLastError");
  call.group_start.take(library, "ncclGroupStart");
  call.group_end.take(library, "ncclGroupEnd");
  call.all_reduce.take(library, "ncclAllReduce");
  call.reduce.take(library, "ncclReduce");
  call.reduce_scatter.take(library, "ncclReduceScatter");
  call.all_gather.take(library, "ncclAllGather");
  call.broadcast.take(library, "ncclBroadcast");
  call.send.take(library, "ncclSend");
  call.recv.take(library, "ncclRecv");
  call.redop_create_premulsum.take(library, "ncclRedOpCreatePreMulSum");
  call.redop_destroy.take(library, "ncclRedOpDestroy");
  // Functions that only some flags need, or that are replaced by other functions if absent.
  call.mem_alloc.take(library, "ncclMemAlloc", 21900);
  call.mem_free.take(library, "ncclMemFree", 21900);
  call.comm_register.take(library, "ncclCommRegister", 21900);
  call.comm_deregister.take(library, "ncclCommDeregister", 21900);
  call.comm_init_rank_config.take(library, "ncclCommInitRankConfig");
  call.comm_window_register.take(library, "ncclCommWindowRegister", 22700);
  call.comm_window_deregister.take(library, "ncclCommWindowDeregister", 22700);
  call.alltoall.take(library, "ncclAlltoAll", 22800);
  call.gather.take(library, "ncclGather", 22800);
  call.scatter.take(library, "ncclScatter", 22800);
  call.dev_comm_create.take(library, "ncclDevCommCreate", 22800);
  call.dev_comm_destroy.take(library, "ncclDevCommDestroy", 22800);
  call.team_lsa.take(library, "ncclTeamLsa", 22800);
  return library;
}

}  // namespace busbw
