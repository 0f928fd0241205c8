#pragma once
// libnccl, loaded at run time: NCCL itself, or a library with its interface.
#include <nccl.h>

#include <string>
#include <utility>

#include "backends/nccl/open_library.hpp"
#include "common/support/error.hpp"

// Types of the device API from nccl_device.h, which few files need.
struct ncclDevComm;
struct ncclDevCommRequirements;
struct ncclTeam;

namespace busbw {

/// Error message for a call of a function that `library` lacks.
std::string missing_function_error(const OpenedLibrary& library, const char* name);

template <class Pointer>
class NcclFunction;

/// One function of the library. If the library lacks it, a call throws EnvironmentError with the names of function and
/// library.
template <class Result, class... Arguments>
class NcclFunction<Result (*)(Arguments...)> {
 public:
  explicit operator bool() const { return function_ != nullptr; }
  Result operator()(Arguments... arguments) const {
    if (!function_) throw EnvironmentError(missing_error_);
    return function_(arguments...);
  }
  /// Loads the function, which NCCL has since version `since` (22800 for 2.28); 0: since every supported version.
  void load(const OpenedLibrary& library, const char* name, int since = 0) {
    function_ = reinterpret_cast<Result (*)(Arguments...)>(library.find(name, since));
    if (!function_) missing_error_ = missing_function_error(library, name);
  }

 private:
  Result (*function_)(Arguments...) = nullptr;
  std::string missing_error_;
};

/// NCCL's ncclWaitSignalDesc_t, which headers before 2.29 do not declare.
struct AwaitedSignals {
  int count;
  int peer;
  int signal = 0;   // one counter for each peer and context is enough
  int context = 0;  // 0 before 2.31
};

/// NCCL's ncclCommProperties_t of version 2.29.7, which headers before 2.29 do not declare. Later libraries write only
/// the members that `version` covers.
struct CommProperties {
  static constexpr int kSince = 22904;  // first version with `host_rma_support`
  static constexpr int kVersion = 22907;
  std::size_t size = sizeof(CommProperties);
  unsigned magic = ncclConfig_t(NCCL_CONFIG_INITIALIZER).magic;
  unsigned version = kVersion;
  int rank = 0;
  int ranks = 0;
  int cuda_device = 0;
  int nvml_device = 0;
  bool device_api_support = false;
  bool multimem_support = false;
  int gin_type = 0;
  int lsa_teams = 0;
  bool host_rma_support = false;
  int railed_gin_type = 0;
};
static_assert(sizeof(CommProperties) == 56);

/// NCCL functions that the backend calls. load_nccl throws if one of kRequiredFunctions (open_library.cpp) is absent.
/// Any other function may be absent.
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
  // A flag that needs these functions is refused if the library lacks them (flag_requirements.hpp).
  NcclFunction<decltype(&::ncclMemAlloc)> mem_alloc;
  NcclFunction<decltype(&::ncclMemFree)> mem_free;
  NcclFunction<decltype(&::ncclCommRegister)> comm_register;
  NcclFunction<decltype(&::ncclCommDeregister)> comm_deregister;
  NcclFunction<decltype(&::ncclCommInitRankConfig)> comm_init_rank_config;
  NcclFunction<decltype(&::ncclCommWindowRegister)> comm_window_register;
  NcclFunction<decltype(&::ncclCommWindowDeregister)> comm_window_deregister;
  NcclFunction<decltype(&::ncclCommInitRankScalable)> comm_init_rank_scalable;
  NcclFunction<decltype(&::ncclAlltoAll)> alltoall;
  NcclFunction<decltype(&::ncclGather)> gather;
  NcclFunction<decltype(&::ncclScatter)> scatter;
  NcclFunction<ncclResult_t (*)(const void* data, std::size_t count, ncclDataType_t, int peer, ncclWindow_t,
                                std::size_t window_offset_bytes, int signal, int context, unsigned flags, ncclComm_t,
                                cudaStream_t)>
      put_signal;
  NcclFunction<ncclResult_t (*)(int length, AwaitedSignals*, ncclComm_t, cudaStream_t)> wait_signal;
  NcclFunction<ncclResult_t (*)(ncclComm_t, CommProperties*)> comm_query_properties;
  NcclFunction<ncclResult_t (*)(ncclComm_t, const ncclDevCommRequirements*, ncclDevComm*)> dev_comm_create;
  NcclFunction<ncclResult_t (*)(ncclComm_t, const ncclDevComm*)> dev_comm_destroy;
  NcclFunction<ncclTeam (*)(ncclComm_t)> team_lsa;
  // comm_ops leaves out the calls that the library lacks (lifecycle_functions.hpp). The last two are newer than the
  // oldest supported header.
  NcclFunction<decltype(&::ncclCommUserRank)> comm_user_rank;
  NcclFunction<decltype(&::ncclCommFinalize)> comm_finalize;
  NcclFunction<decltype(&::ncclCommSplit)> comm_split;
  NcclFunction<decltype(&::ncclCommShrink)> comm_shrink;
  NcclFunction<ncclResult_t (*)(ncclComm_t, ncclUniqueId*)> comm_get_unique_id;
  NcclFunction<ncclResult_t (*)(ncclComm_t, int, const ncclUniqueId*, int, ncclComm_t*, ncclConfig_t*)> comm_grow;
};

/// The library and its functions. It stays loaded until the process ends.
struct NcclLibrary : OpenedLibrary {
  NcclFunctions call;

  /// NCCL's text about the last error of this process, or empty.
  std::string last_error() const;
};

/// Finds and opens the library as open_library.hpp describes, and loads its functions. `option`: value of --library, or
/// empty.
NcclLibrary load_nccl(const std::string& option);

}  // namespace busbw
