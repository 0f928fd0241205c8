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
  /// Loads the function, which NCCL has since version `since` (22800 for 2.28); 0: since every supported version.
  NcclFunction(const OpenedLibrary& library, const char* name, int since = 0)
      : function_(reinterpret_cast<Result (*)(Arguments...)>(library.find(name, since))) {
    if (!function_) missing_error_ = missing_function_error(library, name);
  }
  explicit operator bool() const { return function_ != nullptr; }
  Result operator()(Arguments... arguments) const {
    if (!function_) throw EnvironmentError(missing_error_);
    return function_(arguments...);
  }

 private:
  Result (*function_)(Arguments...);
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

/// NCCL functions that the backend calls. open_nccl throws if one of kRequiredFunctions (open_library.cpp) is absent.
/// Any other function may be absent. A number is the first NCCL version with the function.
struct NcclFunctions {
  const OpenedLibrary& library;

  NcclFunction<decltype(&::ncclGetVersion)> get_version{library, "ncclGetVersion"};
  NcclFunction<decltype(&::ncclGetUniqueId)> get_unique_id{library, "ncclGetUniqueId"};
  NcclFunction<decltype(&::ncclCommInitRank)> comm_init_rank{library, "ncclCommInitRank"};
  NcclFunction<decltype(&::ncclCommDestroy)> comm_destroy{library, "ncclCommDestroy"};
  NcclFunction<decltype(&::ncclCommAbort)> comm_abort{library, "ncclCommAbort"};
  NcclFunction<decltype(&::ncclCommGetAsyncError)> comm_get_async_error{library, "ncclCommGetAsyncError"};
  NcclFunction<decltype(&::ncclGetErrorString)> get_error_string{library, "ncclGetErrorString"};
  NcclFunction<decltype(&::ncclGetLastError)> get_last_error{library, "ncclGetLastError"};
  NcclFunction<decltype(&::ncclGroupStart)> group_start{library, "ncclGroupStart"};
  NcclFunction<decltype(&::ncclGroupEnd)> group_end{library, "ncclGroupEnd"};
  NcclFunction<decltype(&::ncclAllReduce)> all_reduce{library, "ncclAllReduce"};
  NcclFunction<decltype(&::ncclReduce)> reduce{library, "ncclReduce"};
  NcclFunction<decltype(&::ncclReduceScatter)> reduce_scatter{library, "ncclReduceScatter"};
  NcclFunction<decltype(&::ncclAllGather)> all_gather{library, "ncclAllGather"};
  NcclFunction<decltype(&::ncclBroadcast)> broadcast{library, "ncclBroadcast"};
  NcclFunction<decltype(&::ncclSend)> send{library, "ncclSend"};
  NcclFunction<decltype(&::ncclRecv)> recv{library, "ncclRecv"};
  NcclFunction<decltype(&::ncclRedOpCreatePreMulSum)> redop_create_premulsum{library, "ncclRedOpCreatePreMulSum"};
  NcclFunction<decltype(&::ncclRedOpDestroy)> redop_destroy{library, "ncclRedOpDestroy"};
  // A flag that needs these functions is refused if the library lacks them (flag_requirements.hpp).
  NcclFunction<decltype(&::ncclMemAlloc)> mem_alloc{library, "ncclMemAlloc", 21900};
  NcclFunction<decltype(&::ncclMemFree)> mem_free{library, "ncclMemFree", 21900};
  NcclFunction<decltype(&::ncclCommRegister)> comm_register{library, "ncclCommRegister", 21900};
  NcclFunction<decltype(&::ncclCommDeregister)> comm_deregister{library, "ncclCommDeregister", 21900};
  NcclFunction<decltype(&::ncclCommInitRankConfig)> comm_init_rank_config{library, "ncclCommInitRankConfig"};
  NcclFunction<decltype(&::ncclCommWindowRegister)> comm_window_register{library, "ncclCommWindowRegister", 22700};
  NcclFunction<decltype(&::ncclCommWindowDeregister)> comm_window_deregister{library, "ncclCommWindowDeregister",
                                                                             22700};
  NcclFunction<decltype(&::ncclCommInitRankScalable)> comm_init_rank_scalable{library, "ncclCommInitRankScalable",
                                                                              22300};
  NcclFunction<decltype(&::ncclAlltoAll)> alltoall{library, "ncclAlltoAll", 22800};
  NcclFunction<decltype(&::ncclGather)> gather{library, "ncclGather", 22800};
  NcclFunction<decltype(&::ncclScatter)> scatter{library, "ncclScatter", 22800};
  NcclFunction<ncclResult_t (*)(const void* data, std::size_t count, ncclDataType_t, int peer, ncclWindow_t,
                                std::size_t window_offset_bytes, int signal, int context, unsigned flags, ncclComm_t,
                                cudaStream_t)>
      put_signal{library, "ncclPutSignal", 22900};
  NcclFunction<ncclResult_t (*)(int length, AwaitedSignals*, ncclComm_t, cudaStream_t)> wait_signal{
      library, "ncclWaitSignal", 22900};
  NcclFunction<ncclResult_t (*)(ncclComm_t, CommProperties*)> comm_query_properties{library, "ncclCommQueryProperties",
                                                                                    22900};
  NcclFunction<ncclResult_t (*)(ncclComm_t, const ncclDevCommRequirements*, ncclDevComm*)> dev_comm_create{
      library, "ncclDevCommCreate", 22800};
  NcclFunction<ncclResult_t (*)(ncclComm_t, const ncclDevComm*)> dev_comm_destroy{library, "ncclDevCommDestroy", 22800};
  NcclFunction<ncclTeam (*)(ncclComm_t)> team_lsa{library, "ncclTeamLsa", 22800};
  // comm_ops leaves out the calls that the library lacks (lifecycle_functions.hpp). The last two are newer than the
  // oldest supported header.
  NcclFunction<decltype(&::ncclCommUserRank)> comm_user_rank{library, "ncclCommUserRank"};
  NcclFunction<decltype(&::ncclCommFinalize)> comm_finalize{library, "ncclCommFinalize"};
  NcclFunction<decltype(&::ncclCommSplit)> comm_split{library, "ncclCommSplit", 21800};
  NcclFunction<decltype(&::ncclCommShrink)> comm_shrink{library, "ncclCommShrink", 22700};
  NcclFunction<ncclResult_t (*)(ncclComm_t, ncclUniqueId*)> comm_get_unique_id{library, "ncclCommGetUniqueId", 22900};
  NcclFunction<ncclResult_t (*)(ncclComm_t, int, const ncclUniqueId*, int, ncclComm_t*, ncclConfig_t*)> comm_grow{
      library, "ncclCommGrow", 22900};
};

/// The library and its functions. It stays loaded until the process ends.
struct NcclLibrary : OpenedLibrary {
  /// Finds and opens the library as open_library.hpp describes. `option`: value of --library, or empty.
  explicit NcclLibrary(const std::string& option);
  NcclLibrary(const NcclLibrary&) = delete;
  NcclLibrary& operator=(const NcclLibrary&) = delete;

  NcclFunctions call{*this};

  /// NCCL's text about the last error of this process, or empty.
  std::string last_error() const;
};

}  // namespace busbw
