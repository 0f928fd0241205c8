// NCCL's functions that make and end communicators, and its groups: each does what NCCL does, and the fast path comes
// and goes with the communicator.
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

/// Whether a communicator was ready when the call that made it returned: NCCL's default, unless its own variable says
/// no. That may have come from NCCL's file of settings, which its first call reads: ask afterwards.
bool waits(const ncclConfig_t* config) {
  if (const auto everywhere = nccl_number("NCCL_COMM_BLOCKING", process_environment)) {
    if (*everywhere == 0) return false;
    if (*everywhere == 1) return true;
  }
  return config == nullptr || config->blocking != 0;
}

/// Behind a call of NCCL's that made communicators, or will have made them when the group ends.
ncclResult_t made(ncclResult_t result, ncclComm_t* communicators, int count, bool waits, const RealNccl& nccl) noexcept
    try {
  if (settings().all_off() || (result != ncclSuccess && result != ncclInProgress)) return result;
  if (!waits || result == ncclInProgress) {
    log().log_message("a communicator is handed over, since its calls do not wait (config.blocking = 0)");
    // One that was ended past this library may have had the same handle.
    if (!CallGroup::is_open())
      for (int i = 0; i < count; ++i) CommunicatorRegistry::instance().leave(communicators[i]);
    return result;
  }
  std::vector<ncclComm_t> now;
  for (int i = 0; i < count; ++i) {
    if (CallGroup::is_open())
      CallGroup::of_thread().add(&communicators[i]);
    else if (communicators[i] != nullptr)  // null: a split in which this rank has no part
      now.push_back(communicators[i]);
  }
  return now.empty() ? result : CommunicatorRegistry::instance().joined(now, nccl);
} catch (const std::exception& error) {
  print_stderr("libbusbw_nccl.so", error.what());
  return ncclSystemError;
}

void abort(ncclComm_t communicator) {
  if (FastCommunicator* fast = CommunicatorRegistry::instance().find(communicator)) fast->clique->abort();
}

/// The communicator's memory goes when this ends, unless it was aborted.
void end(ncclComm_t communicator) {
  const auto fast = CommunicatorRegistry::instance().leave(communicator);
  if (!fast) return;
  fast->clique->drain_windows();
  fast->report_findings();
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
  CallGroup& group = CallGroup::of_thread();
  const ncclResult_t joined = group.before_end();
  const ncclResult_t result = nccl->group_end();
  return group.end(joined == ncclSuccess ? result : joined, *nccl);
}

// It ends the group without doing what waited in it.
FASTPATH_EXPORT ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* simInfo) {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->group_simulate_end == nullptr) return report_missing_function("ncclGroupSimulateEnd");
  const ncclResult_t result = nccl->group_simulate_end(simInfo);
  CallGroup::of_thread().discard();
  return result;
}

FASTPATH_EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank) {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->comm_init_rank == nullptr) return report_missing_function("ncclCommInitRank");
  const ncclResult_t result = nccl->comm_init_rank(comm, nranks, commId, rank);
  return made(result, comm, 1, waits(nullptr), *nccl);
}

FASTPATH_EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                                    ncclConfig_t* config) {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->comm_init_rank_config == nullptr) return report_missing_function("ncclCommInitRankConfig");
  const ncclResult_t result = nccl->comm_init_rank_config(comm, nranks, commId, rank, config);
  return made(result, comm, 1, waits(config), *nccl);
}

FASTPATH_EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId,
                                                      ncclUniqueId* commIds, ncclConfig_t* config) {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->comm_init_rank_scalable == nullptr) return report_missing_function("ncclCommInitRankScalable");
  const ncclResult_t result = nccl->comm_init_rank_scalable(newcomm, nranks, myrank, nId, commIds, config);
  return made(result, newcomm, 1, waits(config), *nccl);
}

FASTPATH_EXPORT ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist) {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->comm_init_all == nullptr) return report_missing_function("ncclCommInitAll");
  const ncclResult_t result = nccl->comm_init_all(comm, ndev, devlist);
  return made(result, comm, ndev, waits(nullptr), *nccl);
}

FASTPATH_EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                                           ncclConfig_t* config) {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->comm_split == nullptr) return report_missing_function("ncclCommSplit");
  const bool has_joined = CommunicatorRegistry::instance().has_joined(comm);
  const ncclResult_t result = nccl->comm_split(comm, color, key, newcomm, config);
  return made(result, newcomm, 1, has_joined && waits(config), *nccl);
}

FASTPATH_EXPORT ncclResult_t ncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                                            ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags) {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->comm_shrink == nullptr) return report_missing_function("ncclCommShrink");
  if ((shrinkFlags & NCCL_SHRINK_ABORT) != 0) abort(comm);
  const bool has_joined = CommunicatorRegistry::instance().has_joined(comm);
  const ncclResult_t result =
      nccl->comm_shrink(comm, excludeRanksList, excludeRanksCount, newcomm, config, shrinkFlags);
  return made(result, newcomm, 1, has_joined && waits(config), *nccl);
}

// What was queued has run when it returns, or when its group ends.
FASTPATH_EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->comm_finalize == nullptr) return report_missing_function("ncclCommFinalize");
  if (FastCommunicator* fast = CommunicatorRegistry::instance().find(comm)) {
    if (CallGroup::is_open()) {
      const ncclResult_t result = nccl->comm_finalize(comm);
      if (result == ncclSuccess) CallGroup::of_thread().add(fast->shared_from_this());
      return result;
    }
    const auto held = fast->shared_from_this();
    if (const ncclResult_t result = held->finish(); result != ncclSuccess) return result;
  }
  return nccl->comm_finalize(comm);
}

FASTPATH_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->comm_destroy == nullptr) return report_missing_function("ncclCommDestroy");
  end(comm);
  return nccl->comm_destroy(comm);
}

FASTPATH_EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->comm_abort == nullptr) return report_missing_function("ncclCommAbort");
  abort(comm);
  end(comm);
  return nccl->comm_abort(comm);
}

FASTPATH_EXPORT ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags) {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->comm_revoke == nullptr) return report_missing_function("ncclCommRevoke");
  // Before NCCL waits for its own kernels, which may stand behind ours; but not with flags that it may refuse.
  if (revokeFlags == 0) abort(comm);
  const ncclResult_t result = nccl->comm_revoke(comm, revokeFlags);
  if (result == ncclSuccess) abort(comm);
  return result;
}

FASTPATH_EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  const RealNccl* nccl = real_nccl();
  if (nccl == nullptr || nccl->comm_get_async_error == nullptr) return report_missing_function("ncclCommGetAsyncError");
  const ncclResult_t result = nccl->comm_get_async_error(comm, asyncError);
  const FastCommunicator* fast = CommunicatorRegistry::instance().find(comm);
  if (result == ncclSuccess && *asyncError == ncclSuccess && fast != nullptr && fast->verifier &&
      fast->verifier->found_wrong())
    *asyncError = ncclInternalError;
  return result;
}
