// Fills ncclConfig_t for the library's version, which may be newer than the header's, and joins.
#include "backends/nccl/cuda/nccl_join.hpp"

#include <algorithm>
#include <cstddef>

#include "backends/nccl/lifecycle/init_roots.hpp"

namespace busbw {
namespace {

constexpr int kFirstVersionWithCtaPolicy = 22700;
constexpr int kFirstVersionWithNvlinkSchedule = 22800;
constexpr int kFirstVersionWithMaxPeers = 23000;
constexpr int kFirstVersionWithRmaContexts = 23100;

/// ncclConfig_t of NCCL 2.30, because older headers have fewer members. New versions only append members. A library
/// reads the members that it knows and that `version` covers.
struct NcclConfigV2_30 {
  std::size_t size = sizeof(NcclConfigV2_30);
  unsigned magic = ncclConfig_t(NCCL_CONFIG_INITIALIZER).magic;
  unsigned version = kFirstVersionWithMaxPeers;  // 2.30, which has all members below
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
  int reserved = NCCL_CONFIG_UNDEF_INT;
};
static_assert(offsetof(NcclConfigV2_30, cta_policy) == offsetof(ncclConfig_t, CTAPolicy));
static_assert(sizeof(NcclConfigV2_30) == 96);

/// Returns the configuration of a communicator. Only libraries with `reads_config` read it.
NcclConfigV2_30 make_config(const NcclLibrary& library, const NcclOptions& options) {
  NcclConfigV2_30 config;
  config.version = static_cast<unsigned>(std::min(library.version, kFirstVersionWithMaxPeers));
  if (options.survives_losses) config.blocking = 0;
  if (options.cta_policy) config.cta_policy = *options.cta_policy;
  if (options.shares_resources) config.split_share = config.shrink_share = 1;
  // nccl-tests also sets the NVLink schedule and the maximum number of peers. With other settings, the same library
  // would be measured differently.
  if (library.version >= kFirstVersionWithNvlinkSchedule) config.nvlink_centric_sched = 1;
  if (library.version >= kFirstVersionWithMaxPeers && options.max_peers) config.max_p2p_peers = *options.max_peers;
  // 2.30 has the member, but supports only one context. nccl-tests leaves its default, too.
  if (library.version >= kFirstVersionWithRmaContexts && options.rma_contexts > 0)
    config.rma_contexts = options.rma_contexts;
  return config;
}

}  // namespace

SharedUniqueIds share_unique_ids(const NcclLibrary& library, Team& group, int roots) {
  SharedUniqueIds shared;
  std::vector<ncclUniqueId> own_ids;  // one id if this rank makes the id of a root, otherwise none
  if (is_first_of_root(group.rank(), group.size(), roots))
    shared.result = library.call.get_unique_id(&own_ids.emplace_back());
  if (roots == 1) {
    shared.ids = broadcast_value(group, own_ids);
    return shared;
  }
  for (const auto& ids_of_rank : all_gather_values(group, own_ids))
    shared.ids.insert(shared.ids.end(), ids_of_rank.begin(), ids_of_rank.end());
  return shared;
}

// The policy (2.27) is the oldest member that nccl-tests sets. An older library joins without a configuration.
bool reads_config(const NcclLibrary& library) {
  return library.call.comm_init_rank_config && library.version >= kFirstVersionWithCtaPolicy;
}

ncclResult_t join_communicator(const NcclLibrary& library, const NcclOptions& options, std::span<ncclUniqueId> ids,
                               int rank, int ranks, ncclComm_t* comm) {
  const bool has_config = reads_config(library);
  NcclConfigV2_30 config = make_config(library, options);
  auto* const config_or_null = has_config ? reinterpret_cast<ncclConfig_t*>(&config) : nullptr;
  if (ids.size() > 1)
    return library.call.comm_init_rank_scalable(comm, ranks, rank, static_cast<int>(ids.size()), ids.data(),
                                                config_or_null);
  if (!has_config) return library.call.comm_init_rank(comm, ranks, ids.front(), rank);
  return library.call.comm_init_rank_config(comm, ranks, ids.front(), rank, config_or_null);
}

ncclResult_t grow_communicator(const NcclLibrary& library, const NcclOptions& options, ncclComm_t parent, int ranks,
                               const ncclUniqueId* id, int rank, ncclComm_t* comm) {
  NcclConfigV2_30 config = make_config(library, options);
  return library.call.comm_grow(parent, ranks, id, rank, comm, reinterpret_cast<ncclConfig_t*>(&config));
}

}  // namespace busbw
