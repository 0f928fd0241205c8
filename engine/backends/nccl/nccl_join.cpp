#include "backends/nccl/nccl_join.hpp"

namespace busbw {
namespace {

constexpr int kHasCtaPolicy = 22700;
constexpr int kHasNvlinkSchedule = 22800;

}  // namespace

ncclResult_t join_communicator(const NcclLibrary& library, const NcclFlags& flags, const ncclUniqueId& id, int rank,
                               int ranks, ncclComm_t* comm) {
  // A library reads of a longer configuration what it knows, from 2.27 on for sure.
  if (!library.call.comm_init_rank_config || library.version < kHasCtaPolicy)
    return library.call.comm_init_rank(comm, ranks, id, rank);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  if (flags.cta_policy) config.CTAPolicy = *flags.cta_policy;
  // nccl-tests sets it, too; without it the same library is measured in another way.
  if (library.version >= kHasNvlinkSchedule) config.nvlinkCentricSched = 1;
  return library.call.comm_init_rank_config(comm, ranks, id, rank, &config);
}

}  // namespace busbw
