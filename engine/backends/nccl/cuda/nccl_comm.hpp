#pragma once
// Owns one rank's ncclComm_t and turns NCCL's errors into exceptions.
#include <limits>
#include <string>
#include <utility>

#include "backends/backend.hpp"
#include "backends/nccl/cuda/live_communicators.hpp"
#include "backends/nccl/cuda/nccl_library.hpp"
#include "backends/nccl/nccl_options.hpp"
#include "common/values/types.hpp"
#include "rendezvous/team/team.hpp"

namespace busbw {

/// Returns NCCL's constant for an element type.
ncclDataType_t nccl_type(Dtype dtype);

/// True for errors that NCCL reports after a peer was lost or its network failed.
inline bool may_be_error_of_peer(ncclResult_t result) {
  return result == ncclRemoteError || result == ncclSystemError || result == ncclInternalError;
}

/// One rank's ncclComm_t. If it survives losses (NcclOptions::survives_losses), its calls may return before they are
/// done, and `rejoin` replaces it after a loss. Otherwise its calls block.
class NcclComm {
 public:
  /// Joins the communicator of `group`, on the current device, under unique ids that ranks of the group create. If
  /// it survives losses, the first call of `rejoin` joins instead. `library`, `world` and
  /// `live_communicators` must outlive this. `rank_text`: "rank 3 on GPU 0000:0f:00", for errors.
  NcclComm(const NcclLibrary& library, const NcclOptions& flags, const Team& world, Team& group, std::string rank_text,
           LiveCommunicators& live_communicators);
  /// Owns `comm`, which already exists. If it is null, the object can only check results.
  NcclComm(const NcclLibrary& library, const Team& world, std::string rank_text, LiveCommunicators& live_communicators,
           ncclComm_t comm);
  /// Destroys the communicator. In an aborted job, or if it survives losses, it calls ncclCommAbort instead, which
  /// waits for no other rank. If this rank failed but the job is not aborted yet, the communicator is left alone and
  /// ends with the process.
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  ncclComm_t get() const { return comm_; }
  /// Returns the communicator and no longer owns it. The caller must end it.
  ncclComm_t release();
  /// True if waits for a lost rank can end: `NcclOptions::survives_losses`, with a library that can do it.
  bool survives_losses() const { return survives_losses_; }
  /// Ends the operations of this rank without waiting for other ranks. `get` is then null until `rejoin`.
  void abort();
  /// Aborts the communicator, if there is one, and joins a new one with the ranks of `group`, which all call this
  /// function. Returns the problem if not all have joined within `limit_s`, as Communicator::reconnect does. Throws if
  /// this rank itself fails. Without `survives_losses`, it waits for all.
  ConnectionProblem rejoin(const NcclOptions& flags, Team& group, double limit_s);
  /// Waits until the calls so far are done, at most `limit_s`, and returns NCCL's state: ncclInProgress if they are not
  /// done. Throws JobAborted after an abort. Returns ncclSuccess at once if calls block, because they are then done.
  ncclResult_t finish_calls(double limit_s = std::numeric_limits<double>::infinity()) const;
  /// Returns NCCL's asynchronous state. If the query itself fails, throws like `check`. A communicator that survives
  /// losses does not throw, but returns the error of the query.
  ncclResult_t state() const;
  /// True if this rank has not failed and the job goes on. Only then may the communicator's registrations be released.
  bool ends_normally() const;
  /// True unless NCCL reports that the communicator has no puts. Call it after buffers are registered.
  bool supports_puts() const;
  /// Throws EnvironmentError with NCCL's error text, unless `result` is ncclSuccess. `activity`: "ncclAllReduce".
  void check(ncclResult_t result, const char* activity) const;
  /// Like `check` for a call that may return before it is done, because the communicator survives losses.
  void check_call(ncclResult_t result, const char* activity) const;
  /// Describes a failure with NCCL's error text and a remedy.
  std::string failure_text(ncclResult_t result, const char* activity) const;
  /// Checks for asynchronous errors. Throws like `check`, but Error(ExitCode::rank_lost) if NCCL has lost a peer.
  void check_async() const;

 private:
  /// Joins the communicator of `group` without waiting, and returns NCCL's result.
  ncclResult_t join(const NcclOptions& flags, Team& group);

  const NcclLibrary& library_;
  const Team& world_;
  std::string rank_text_;
  LiveCommunicators& live_communicators_;
  bool survives_losses_ = false;
  ncclComm_t comm_ = nullptr;
};

}  // namespace busbw
