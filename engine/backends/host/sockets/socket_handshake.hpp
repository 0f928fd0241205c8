#pragma once
// Messages that connect two ranks. First all ranks exchange PeerInfo and ListenerCredentials through the team. Then, on
// each new connection: request, answer, confirmation.
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

/// Identity and location of a rank, sent through the team.
struct PeerInfo {
  int world_rank = 0;
  std::string host;
  std::string loopback_namespace;  // see loopback_namespace_id
  std::vector<Interface> interfaces;

  Bytes encoded() const;
  /// True if both ranks reach each other over loopback.
  bool same_host(const PeerInfo& other) const {
    return !loopback_namespace.empty() && loopback_namespace == other.loopback_namespace;
  }
};
/// Throws BrokenMessage or EnvironmentError if the bytes are not a valid PeerInfo.
PeerInfo decode_peer_info(std::span<const std::byte> bytes);

/// Port of a rank's listener, and the secrets that prove that both ends belong to this job. Sent through the team,
/// which is authenticated.
struct ListenerCredentials {
  using Secret = std::array<std::byte, 16>;
  std::uint16_t port = 0;
  Secret secret{};  // sent by the connecting rank
  Secret answer{};  // sent back by the listener, because an address may lead to a wrong host
};

/// Creates credentials with new random secrets.
ListenerCredentials new_listener_credentials(std::uint16_t port);

/// First bytes of a connection, from the connecting rank. The listener replies with its `answer`, and the connecting
/// rank then sends one byte, kConfirmation. Only then do both ends know that they use this connection.
struct ConnectRequest {
  static constexpr std::size_t kBytes = 32;
  using Encoded = std::array<std::byte, kBytes>;
  int from = 0;  // rank in the communicator, as is `to`
  int to = 0;
  ListenerCredentials::Secret secret{};

  Encoded encoded() const;
};
/// Last byte of the handshake, from the connecting rank.
inline constexpr std::byte kConfirmation{'!'};

/// Returns nothing if the bytes are not a connect request.
std::optional<ConnectRequest> decode_connect_request(const ConnectRequest::Encoded& bytes);

}  // namespace busbw
