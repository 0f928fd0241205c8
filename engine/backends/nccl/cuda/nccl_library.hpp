#pragma once
// libnccl, loaded when the program runs: NCCL itself, or a library with its interface.
#include <nccl.h>

#include <string>
#include <utility>

#include "backends/nccl/open_library.hpp"
#include "common/support/error.hpp"

// The device API's, of nccl_device.h, which few files need.
struct ncclDevComm;
struct ncclDevCommRequirements;
struct ncclTeam;

namespace busbw {

/// What is said where `library` lacks a function that is called.
std::string missing_function_error(const OpenedLibrary& library, const char* name);

template <class Pointer>
class NcclFunction;

/// One function of the library, which may not have it. Calling it then throws EnvironmentError that names both.
template <class Result, class... Arguments>
class NcclFunction<Result (*)(Arguments...)> {
 public:
  explicit operator bool() const { return function_ != nullptr; }
  Result operator()(Arguments... arguments) const {
    if (!function_) throw EnvironmentError(missing_error_);
    return function_(arguments...);
  }
  /// Takes the function of that name, which NCCL has since that version.
  void take(const OpenedLibrary& library, const char* name, int since = 0) {
    function_ = reinterpret_cast<Result (*)(Arguments...)>(library.find(name, since));
    if (!function_) missing_error_ = missing_function_error(library, name);
  }

 private:
  Result (*function_)(Arguments...) = nullptr;
  std::string missing_error_;
};

/// The functions that the backend calls. Those that every collective needs are there.
struct NcclFunctions {
  NcclFunction<decltype(&::ncclGetVersion)> get_version;
  NcclFunction<decltype(&::ncclGetUniqueId)> get_unique_id;
  NcclFunction<decltype(&::ncclCommInitRank)> comm_init_rank;
  NcclFunction<decltype(&::ncclCommDestroy)> comm_destroy;
  NcclFunction<decltype(&::ncclCommAbort)> comm_abort;
  NcclFunction<decltype(&::ncclCommGetAsyncError)> comm_get_async_error;
  NcclFunction<decltype(&::ncclGetErrorString)> get_error_string;
  NcclFunction<decltype(&::ncclGetLastError)> get_last_error;
  NcclFunction<decltype(&::ncclGroupStart)> group_start;
  NcclFunction<decltype(&::ncclGroupEnd)> group_end;
  NcclFunction<decltype(&::ncclAllReduce)> all_reduce;
  NcclFunction<decltype(&::ncclReduce)> reduce;
  NcclFunction<decltype(&::ncclReduceScatter)> reduce_scatter;
  NcclFunction<decltype(&::ncclAllGather)> all_gather;
  NcclFunction<decltype(&::ncclBroadcast)> broadcast;
  NcclFunction<decltype(&::ncclSend)> send;
  NcclFunction<decltype(&::ncclRecv)> recv;
  NcclFunction<decltype(&::ncclRedOpCreatePreMulSum)> redop_create_premulsum;
  NcclFunction<decltype(&::ncclRedOpDestroy)> redop_destroy;
  // Where the library is too old for them, a flag that needs them says so (flag_needs.hpp).
  NcclFunction<decltype(&::ncclMemAlloc)> mem_alloc;
  NcclFunction<decltype(&::ncclMemFree)> mem_free;
  NcclFunction<decltype(&::ncclCommRegister)> comm_register;
  NcclFunction<decltype(&::ncclCommDeregister)> comm_deregister;
  NcclFunction<decltype(&::ncclCommInitRankConfig)> comm_init_rank_config;
  NcclFunction<decltype(&::ncclCommWindowRegister)> comm_window_register;
  NcclFunction<decltype(&::ncclCommWindowDeregister)> comm_window_deregister;
  NcclFunction<decltype(&::ncclAlltoAll)> alltoall;
  NcclFunction<decltype(&::ncclGather)> gather;
  NcclFunction<decltype(&::ncclScatter)> scatter;
  NcclFunction<ncclResult_t (*)(ncclComm_t, const ncclDevCommRequirements*, ncclDevComm*)> dev_comm_create;
  NcclFunction<ncclResult_t (*)(ncclComm_t, const ncclDevComm*)> dev_comm_destroy;
  NcclFunction<ncclTeam (*)(ncclComm_t)> team_lsa;
};

/// A library that stays loaded.
struct NcclLibrary : OpenedLibrary {
  NcclFunctions call;

  /// What it says of the last error of this process; empty where it says nothing.
  std::string last_error() const;
};

/// Finds and opens the library (open_library.hpp says where and what is refused) and takes its functions.
NcclLibrary load_nccl(const std::string& option);

}  // namespace busbw
