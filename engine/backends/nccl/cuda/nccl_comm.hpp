#pragma once
// Owns one rank's ncclComm_t and turns NCCL's errors into exceptions.
#include <string>
#include <utility>

#include "backends/nccl/cuda/live_communicators.hpp"
#include "backends/nccl/cuda/nccl_library.hpp"
#include "backends/nccl/nccl_options.hpp"
#include "common/values/types.hpp"
#include "rendezvous/team/team.hpp"

namespace busbw {

/// Returns NCCL's constant for an element type.
ncclDataType_t nccl_type(Dtype dtype);

/// One rank's ncclComm_t.
class NcclComm {
 public:
  /// Joins the communicator of `group`, on the current device, under the id that rank 0 of the group creates.
  /// `library`, `world` and `live_communicators` must outlive this. `rank_text`: "rank 3 on GPU 0000:0f:00", for
  /// errors.
  NcclComm(const NcclLibrary& library, const NcclOptions& flags, const Team& world, Team& group, std::string rank_text,
           LiveCommunicators& live_communicators);
  /// Owns a communicator that exists.
  NcclComm(const NcclLibrary& library, const Team& world, std::string rank_text, LiveCommunicators& live_communicators,
           ncclComm_t comm);
  /// Destroys the communicator. In an aborted job it calls ncclCommAbort instead, which waits for no other rank. If
  /// this rank failed but the job is not aborted yet, the communicator is left alone and ends with the process.
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  ncclComm_t get() const { return comm_; }
  /// Gives the communicator up, for a call that ends it.
  ncclComm_t release();
  /// True if the destructor calls ncclCommDestroy. If false, the communicator's registrations must not be released.
  bool ends_normally() const;
  /// Throws EnvironmentError with NCCL's error text, unless `result` is ncclSuccess. `activity`: "ncclAllReduce".
  void check(ncclResult_t result, const char* activity) const;
  /// Checks for asynchronous errors. Throws like `check`, but Error(ExitCode::rank_lost) if NCCL has lost a peer.
  void check_async() const;

 private:
  std::string failure_text(ncclResult_t result, const char* activity) const;

  const NcclLibrary& library_;
  const Team& world_;
  std::string rank_text_;
  LiveCommunicators& live_communicators_;
  ncclComm_t comm_ = nullptr;
};

}  // namespace busbw
