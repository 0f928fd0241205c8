#pragma once
// Identity and addresses of a rank, which all ranks exchange through the Team (rendezvous/team/team.hpp) before they
// connect.
#include <span>
#include <string>
#include <vector>

#include "common/os/network.hpp"
#include "rendezvous/team/team.hpp"

namespace busbw {

/// Identity and location of a rank.
struct PeerInfo {
  int world_rank = 0;
  std::string host;
  /// Equal on ranks that share a loopback interface; empty if unknown (loopback_namespace_id in socket_addresses.hpp).
  std::string loopback_namespace;
  std::vector<Interface> interfaces;
  int rank = 0;  // in the communicator

  Bytes encoded() const;
  /// True if both ranks are known to reach each other over loopback. False for two containers of one host with separate
  /// networks.
  bool shares_loopback_with(const PeerInfo& other) const {
    return !loopback_namespace.empty() && loopback_namespace == other.loopback_namespace;
  }
};
/// Throws BrokenMessage or EnvironmentError if the bytes are not a valid PeerInfo.
PeerInfo decode_peer_info(std::span<const std::byte> bytes);

}  // namespace busbw
