#pragma once
// What ranks tell each other before they are connected, through their team and as the first bytes of a connection.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/os/network.hpp"
#include "rendezvous/team/team.hpp"

namespace busbw {

/// Who a rank is and where; told through the team.
struct PeerInfo {
  int world_rank = 0;
  std::string host;
  std::string place;  // see loopback_place
  std::vector<Interface> interfaces;

  Bytes encoded() const;
  bool same_host(const PeerInfo& other) const { return !place.empty() && place == other.place; }
};
/// Throws BrokenMessage or EnvironmentError when the bytes are no introduction.
PeerInfo decode_peer_info(std::span<const std::byte> bytes);

/// Where a rank is called, and what proves that caller and called are of this job; told through the team, which
/// strangers cannot read.
struct ListenerCredentials {
  using Secret = std::array<std::byte, 16>;
  std::uint16_t port = 0;
  Secret secret{};  // the caller says it
  Secret answer{};  // the called says it in return: an address may lead to another host than it was meant for

  Bytes encoded() const;
};
/// Throws BrokenMessage when the bytes are no door.
ListenerCredentials decode_listener_credentials(std::span<const std::byte> bytes);

/// A door with new random secrets.
ListenerCredentials new_listener_credentials(std::uint16_t port);

/// The first bytes of a connection, from the caller. The called returns its door's answer, and then the caller sends
/// one byte, kConfirmation: only now do both know that this is the connection to use.
struct ConnectRequest {
  static constexpr std::size_t kBytes = 32;
  using Encoded = std::array<std::byte, kBytes>;
  int from = 0;  // ranks in the communicator
  int to = 0;
  ListenerCredentials::Secret secret{};

  Encoded encoded() const;
};
inline constexpr std::byte kConfirmation{'!'};

/// Missing where the bytes are no greeting.
std::optional<ConnectRequest> decode_connect_request(const ConnectRequest::Encoded& bytes);

}  // namespace busbw
