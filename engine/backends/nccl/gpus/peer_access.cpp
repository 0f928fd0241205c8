// Message about GPUs that must move data through the host's memory.
#include "backends/nccl/gpus/peer_access.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace busbw {
namespace {

constexpr std::size_t kMaxNamedPairs = 4;

}  // namespace

std::optional<std::string> peer_access_warning(const std::vector<std::pair<std::string, std::string>>& pairs,
                                               std::string_view p2p_disable) {
  if (!p2p_disable.empty() && p2p_disable != "0")
    return fmt::format(
        "NCCL_P2P_DISABLE={} is set, so GPUs move data through the host's memory; unset it to use their own links",
        p2p_disable);
  if (pairs.empty()) return std::nullopt;
  std::string pairs_text;
  for (std::size_t i = 0; i < std::min(pairs.size(), kMaxNamedPairs); ++i)
    pairs_text += fmt::format("{}{} and {}", i == 0 ? "" : ", ", pairs[i].first, pairs[i].second);
  if (pairs.size() > kMaxNamedPairs) pairs_text += fmt::format(" and {} more pairs", pairs.size() - kMaxNamedPairs);
  return fmt::format(
      "GPUs {} have no access to each other's memory, so NCCL moves their data through the host's; check busbw topo "
      "and nvidia-smi topo -p2p r, and turn PCIe ACS off if no virtual machine needs it",
      pairs_text);
}

}  // namespace busbw
