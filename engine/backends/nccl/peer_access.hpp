#pragma once
// GPUs of one machine that cannot reach each other's memory.
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace busbw {

/// What a person should know where some of a run's GPUs do not read and write each other's memory, because they cannot
/// (`pairs`, by bus id) or may not (`p2p_disable`: the value of NCCL_P2P_DISABLE); nothing where all do.
std::optional<std::string> peer_access_warning(const std::vector<std::pair<std::string, std::string>>& pairs,
                                               std::string_view p2p_disable);

}  // namespace busbw
