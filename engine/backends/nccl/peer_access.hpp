#pragma once
// Warnings about GPUs of one machine that cannot access each other's memory.
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace busbw {

/// Warning if GPUs of a run cannot access each other's memory (`pairs`, by bus id) or must not (`p2p_disable`: value of
/// NCCL_P2P_DISABLE). Nothing if all can.
std::optional<std::string> peer_access_warning(const std::vector<std::pair<std::string, std::string>>& pairs,
                                               std::string_view p2p_disable);

}  // namespace busbw
