// NCCL's functions for the life of communicators, and its group functions. Each function calls NCCL, and does the same
// for the fast path of the communicator or for the call group.
#include <nccl.h>

#include <exception>
#include <vector>

#include "common/os/environment.hpp"
#include "common/support/stderr_message.hpp"
#include "fastpath/choice/method_log.hpp"
#include "fastpath/choice/settings.hpp"
#include "fastpath/communicator/call_group.hpp"
#include "fastpath/communicator/communicator_registry.hpp"
#include "fastpath/exports/exported.hpp"
#include "fastpath/exports/missing_function.hpp"

namespace busbw::fastpath {
namespace {

/// True if a communicator is blocking: it is ready when the call that creates it returns. NCCL_COMM_BLOCKING overrides
/// the config. Call this after NCCL's function, because NCCL may set the variable from its configuration file.
bool is_blocking(const ncclConfig_t* config) {
  if (const auto variable = nccl_number("NCCL_COMM_BLOCKING", process_environment)) {
    if (*variable == 0) return false;
    if (*variable == 1) return true;
  }
  return config == nullptr || config->blocking != 0;
}

/// True if an existing communicator is blocking: finish_creation() adds only blocking communicators to the registry. A
/// communicator that is made from a non-blocking one is not ready when the call returns.
bool is_registered_as_blocking(ncclComm_t communicator) {
  return CommunicatorRegistry::instance().was_added(communicator);
}

/// Sets up the fast paths after an NCCL call that created communicators. Within a group, the end of the group sets up
/// the fast paths. `result` is NCCL's result. Returns the result for the program.
ncclResult_t finish_creation(ncclResult_t result, ncclComm_t* communicators, int count, bool are_blocking,
                             const RealNccl& nccl) noexcept try {
  const bool has_failed = result != ncclSuccess && result != ncclInProgress;
  if (settings().all_off() || has_failed) return result;
  if (!are_blocking || result == ncclInProgress) {
    log().log_message("a communicator is delegated to NCCL, because it is non-blocking (config.blocking = 0)");
    // Removes old entries: a communicator that was destroyed without calling this library may have had the same handle.
    // Within a group, NCCL has not set the handles yet.
    if (!CallGroup::is_open())
      for (int i = 0; i < count; ++i) CommunicatorRegistry::instance().remove(communicators[i]);
    return result;
  }
  if (CallGroup::is_open()) {
    for (int i = 0; i < count; ++i) CallGroup::of_this_thread().add_new_communicator(&communicators[i]);
    return result;
  }
  std::vector<ncclComm_t> ready;
  for (int i = 0; i < count; ++i)
    if (communicators[i] != nullptr) ready.push_back(communicators[i]);  // null: this rank takes no part in the split
  return ready.empty() ? result : CommunicatorRegistry::instance().add(ready, nccl);
} catch (const std::exception& error) {
  print_stderr("libbusbw_nccl.so", error.what());
  return ncclSystemError;
}

/// Makes the kernels of a communicator's fast path exit.
void abort_fast_path(ncclComm_t communicator) {
  if (FastCommunicator* fast = CommunicatorRegistry::instance().find(communicator)) fast->clique->abort();
}

/// Removes the communicator's fast path, and releases the memory of the fast path. For an aborted communicator, the
/// registry keeps this memory.
void remove_fast_path(ncclComm_t communicator) {
  const auto fast = CommunicatorRegistry::instance().remove(communicator);
  if (!fast) return;
  fast->clique->drain_windows();
  fast->report_mismatches();
}

}  // namespace
}  // namespace busbw::fastpath

using namespace busbw::fastpath;

FASTPATH_EXPORT ncclResult_t ncclGroupStart() {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->group_start == nullptr) return report_missing_function("ncclGroupStart");
  const ncclResult_t result = nccl->group_start();
  if (result == ncclSuccess) CallGroup::start();
  return result;
}

FASTPATH_EXPORT ncclResult_t ncclGroupEnd() {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->group_end == nullptr) return report_missing_function("ncclGroupEnd");
  CallGroup& group = CallGroup::of_this_thread();
  const ncclResult_t prepared = group.prepare_end();
  const ncclResult_t result = nccl->group_end();
  return group.end(prepared == ncclSuccess ? result : prepared, *nccl);
}

// NCCL ends the group without running the calls of the group.
FASTPATH_EXPORT ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* simInfo) {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->group_simulate_end == nullptr) return report_missing_function("ncclGroupSimulateEnd");
  const ncclResult_t result = nccl->group_simulate_end(simInfo);
  CallGroup::of_this_thread().discard();
  return result;
}

FASTPATH_EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank) {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->comm_init_rank == nullptr) return report_missing_function("ncclCommInitRank");
  const ncclResult_t result = nccl->comm_init_rank(comm, nranks, commId, rank);
  return finish_creation(result, comm, 1, is_blocking(nullptr), *nccl);
}

FASTPATH_EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                                    ncclConfig_t* config) {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->comm_init_rank_config == nullptr)
    return report_missing_function("ncclCommInitRankConfig");
  const ncclResult_t result = nccl->comm_init_rank_config(comm, nranks, commId, rank, config);
  return finish_creation(result, comm, 1, is_blocking(config), *nccl);
}

FASTPATH_EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId,
                                                      ncclUniqueId* commIds, ncclConfig_t* config) {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->comm_init_rank_scalable == nullptr)
    return report_missing_function("ncclCommInitRankScalable");
  const ncclResult_t result = nccl->comm_init_rank_scalable(newcomm, nranks, myrank, nId, commIds, config);
  return finish_creation(result, newcomm, 1, is_blocking(config), *nccl);
}

FASTPATH_EXPORT ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist) {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->comm_init_all == nullptr) return report_missing_function("ncclCommInitAll");
  const ncclResult_t result = nccl->comm_init_all(comm, ndev, devlist);
  return finish_creation(result, comm, ndev, is_blocking(nullptr), *nccl);
}

FASTPATH_EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                                           ncclConfig_t* config) {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->comm_split == nullptr) return report_missing_function("ncclCommSplit");
  const bool is_parent_blocking = is_registered_as_blocking(comm);
  const ncclResult_t result = nccl->comm_split(comm, color, key, newcomm, config);
  return finish_creation(result, newcomm, 1, is_parent_blocking && is_blocking(config), *nccl);
}

FASTPATH_EXPORT ncclResult_t ncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                                            ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags) {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->comm_shrink == nullptr) return report_missing_function("ncclCommShrink");
  if ((shrinkFlags & NCCL_SHRINK_ABORT) != 0) abort_fast_path(comm);
  const bool is_parent_blocking = is_registered_as_blocking(comm);
  const ncclResult_t result =
      nccl->comm_shrink(comm, excludeRanksList, excludeRanksCount, newcomm, config, shrinkFlags);
  return finish_creation(result, newcomm, 1, is_parent_blocking && is_blocking(config), *nccl);
}

// The queued operations have run when this function returns, or, within a group, when the group ends.
FASTPATH_EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->comm_finalize == nullptr) return report_missing_function("ncclCommFinalize");
  if (FastCommunicator* fast = CommunicatorRegistry::instance().find(comm)) {
    if (CallGroup::is_open()) {
      const ncclResult_t result = nccl->comm_finalize(comm);
      if (result == ncclSuccess) CallGroup::of_this_thread().add_finalized(fast->shared_from_this());
      return result;
    }
    const auto shared_fast = fast->shared_from_this();  // another thread may remove the communicator meanwhile
    if (const ncclResult_t result = shared_fast->finish(); result != ncclSuccess) return result;
  }
  return nccl->comm_finalize(comm);
}

FASTPATH_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->comm_destroy == nullptr) return report_missing_function("ncclCommDestroy");
  remove_fast_path(comm);
  return nccl->comm_destroy(comm);
}

FASTPATH_EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->comm_abort == nullptr) return report_missing_function("ncclCommAbort");
  abort_fast_path(comm);
  remove_fast_path(comm);
  return nccl->comm_abort(comm);
}

FASTPATH_EXPORT ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags) {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->comm_revoke == nullptr) return report_missing_function("ncclCommRevoke");
  // Abort before NCCL waits for its own kernels, which may be queued behind the kernels of the fast path. With flags
  // other than 0, NCCL may refuse the call, so abort only after its success.
  const bool must_succeed_first = revokeFlags != 0;
  if (!must_succeed_first) abort_fast_path(comm);
  const ncclResult_t result = nccl->comm_revoke(comm, revokeFlags);
  if (must_succeed_first && result == ncclSuccess) abort_fast_path(comm);
  return result;
}

FASTPATH_EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->comm_get_async_error == nullptr) return report_missing_function("ncclCommGetAsyncError");
  const ncclResult_t result = nccl->comm_get_async_error(comm, asyncError);
  const FastCommunicator* fast = CommunicatorRegistry::instance().find(comm);
  const bool has_found_wrong = fast != nullptr && fast->verifier && fast->verifier->has_found_wrong();
  if (has_found_wrong && result == ncclSuccess && *asyncError == ncclSuccess) *asyncError = ncclInternalError;
  return result;
}
