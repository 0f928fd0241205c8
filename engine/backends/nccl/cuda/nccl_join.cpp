#include "backends/nccl/cuda/nccl_join.hpp"

#include <algorithm>
#include <cstddef>

namespace busbw {
namespace {

constexpr int kHasCtaPolicy = 22700;
constexpr int kHasNvlinkSchedule = 22800;
constexpr int kHasMostPeers = 23000;

/// ncclConfig_t of NCCL 2.30, which older headers do not have. It only ever grows at its end, and a library reads of it
/// what `version` says.
struct NcclConfigV2_30 {
  std::size_t size = sizeof(NcclConfigV2_30);
  unsigned magic = ncclConfig_t(NCCL_CONFIG_INITIALIZER).magic;
  unsigned version = kHasMostPeers;
  int blocking = NCCL_CONFIG_UNDEF_INT;
  int cga_cluster_size = NCCL_CONFIG_UNDEF_INT;
  int min_ctas = NCCL_CONFIG_UNDEF_INT;
  int max_ctas = NCCL_CONFIG_UNDEF_INT;
  const char* net_name = NCCL_CONFIG_UNDEF_PTR;
  int split_share = NCCL_CONFIG_UNDEF_INT;
  int traffic_class = NCCL_CONFIG_UNDEF_INT;
  const char* comm_name = NCCL_CONFIG_UNDEF_PTR;
  int collnet_enable = NCCL_CONFIG_UNDEF_INT;
  int cta_policy = NCCL_CONFIG_UNDEF_INT;
  int shrink_share = NCCL_CONFIG_UNDEF_INT;
  int nvls_ctas = NCCL_CONFIG_UNDEF_INT;
  int channels_per_net_peer = NCCL_CONFIG_UNDEF_INT;
  int nvlink_centric_sched = NCCL_CONFIG_UNDEF_INT;
  int graph_usage_mode = NCCL_CONFIG_UNDEF_INT;
  int rma_contexts = NCCL_CONFIG_UNDEF_INT;
  int max_p2p_peers = NCCL_CONFIG_UNDEF_INT;
  int of_later_versions = NCCL_CONFIG_UNDEF_INT;
};
static_assert(offsetof(NcclConfigV2_30, cta_policy) == offsetof(ncclConfig_t, CTAPolicy));
static_assert(sizeof(NcclConfigV2_30) == 96);

}  // namespace

ncclResult_t join_communicator(const NcclLibrary& library, const NcclOptions& flags, const ncclUniqueId& id, int rank,
                               int ranks, ncclComm_t* comm) {
  // A library reads of a longer configuration what it knows, from 2.27 on for sure.
  if (!library.call.comm_init_rank_config || library.version < kHasCtaPolicy)
    return library.call.comm_init_rank(comm, ranks, id, rank);
  NcclConfigV2_30 config;
  config.version = static_cast<unsigned>(std::min(library.version, kHasMostPeers));
  if (flags.cta_policy) config.cta_policy = *flags.cta_policy;
  // nccl-tests sets both, too; without them the same library is measured in another way.
  if (library.version >= kHasNvlinkSchedule) config.nvlink_centric_sched = 1;
  if (library.version >= kHasMostPeers && flags.max_peers) config.max_p2p_peers = *flags.max_peers;
  return library.call.comm_init_rank_config(comm, ranks, id, rank, reinterpret_cast<ncclConfig_t*>(&config));
}

}  // namespace busbw
