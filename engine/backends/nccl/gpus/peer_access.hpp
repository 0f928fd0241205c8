#pragma once
// Warnings about GPUs of one machine that cannot access each other's memory.
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace busbw {

/// Warning if `p2p_disable`, the value of NCCL_P2P_DISABLE, forbids access, or if `pairs` has pairs of GPUs (bus ids)
/// without access. Nothing if all GPUs of the run can access each other's memory.
std::optional<std::string> peer_access_warning(const std::vector<std::pair<std::string, std::string>>& pairs,
                                               std::string_view p2p_disable);

}  // namespace busbw
