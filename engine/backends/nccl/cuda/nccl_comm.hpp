#pragma once
// An ncclComm_t with an owner, and NCCL's errors as exceptions.
#include <string>
#include <utility>

#include "backends/nccl/cuda/live_communicators.hpp"
#include "backends/nccl/cuda/nccl_library.hpp"
#include "backends/nccl/nccl_options.hpp"
#include "common/values/types.hpp"
#include "rendezvous/team/team.hpp"

namespace busbw {

ncclDataType_t nccl_type(Dtype dtype);

class NcclComm {
 public:
  /// Joins `group` under the id that its first member makes, on the current device. The library, `world`, `live` and
  /// what is in `where`, "rank 3 on GPU 0000:0f:00", are for as long as this lives.
  NcclComm(const NcclLibrary& library, const NcclOptions& flags, const Team& world, Team& group, std::string where,
           LiveCommunicators& live);
  /// Of an aborted job: aborts, which waits for nobody. Where this rank failed before it had joined for good, nobody
  /// knows why yet: nothing is done to the communicator, which goes with the process.
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  ncclComm_t get() const { return comm_; }
  /// Whether it would be destroyed now and not aborted: what belongs to it is given back first then.
  bool ends_in_order() const;
  /// Throws EnvironmentError with NCCL's own words.
  void check(ncclResult_t result, const char* doing) const;
  /// What NCCL has noticed since: throws as `check`, but Error (Exit::rank_lost) where it has lost a peer.
  void check_async() const;

 private:
  std::string failure_text(ncclResult_t result, const char* doing) const;

  const NcclLibrary& library_;
  const Team& world_;
  std::string where_;
  LiveCommunicators& live_;
  ncclComm_t comm_ = nullptr;
};

}  // namespace busbw
