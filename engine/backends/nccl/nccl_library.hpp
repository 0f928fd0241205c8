#pragma once
// libnccl, loaded when the program runs: NCCL itself, or a library with its interface.
#include <nccl.h>

#include <string>

namespace busbw {

/// The functions that the backend calls. What a library lacks is named when it is loaded.
struct NcclFunctions {
  decltype(&::ncclGetVersion) get_version;
  decltype(&::ncclGetUniqueId) get_unique_id;
  decltype(&::ncclCommInitRank) comm_init_rank;
  decltype(&::ncclCommDestroy) comm_destroy;
  decltype(&::ncclCommAbort) comm_abort;
  decltype(&::ncclCommGetAsyncError) comm_get_async_error;
  decltype(&::ncclGetErrorString) get_error_string;
  decltype(&::ncclGetLastError) get_last_error;
  decltype(&::ncclGroupStart) group_start;
  decltype(&::ncclGroupEnd) group_end;
  decltype(&::ncclAllReduce) all_reduce;
  decltype(&::ncclReduce) reduce;
  decltype(&::ncclReduceScatter) reduce_scatter;
  decltype(&::ncclAllGather) all_gather;
  decltype(&::ncclBroadcast) broadcast;
  decltype(&::ncclSend) send;
  decltype(&::ncclRecv) recv;
  decltype(&::ncclRedOpCreatePreMulSum) redop_create_premulsum;
  decltype(&::ncclRedOpDestroy) redop_destroy;
};

/// A library that stays loaded.
struct NcclLibrary {
  NcclFunctions call;
  int version = 0;    // as ncclGetVersion gives it: 22809
  std::string path;   // of the file that was loaded
};

/// Looks for the library where `path` says; if that is empty, where BUSBW_NCCL_LIBRARY says, among what LD_PRELOAD
/// brought, in the Python environment that the program lies in, in the system. Throws EnvironmentError that names where
/// it looked, or what the library lacks.
NcclLibrary load_nccl(const std::string& path);

/// "2.28.9" of 22809; versions before 2.9 counted differently and are refused.
std::string nccl_version_text(int version);

}  // namespace busbw
