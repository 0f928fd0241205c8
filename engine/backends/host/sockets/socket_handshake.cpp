#include "backends/host/sockets/socket_handshake.hpp"

#include <cstring>
#include <string_view>
#include <utility>

#include "common/os/random_bytes.hpp"

namespace busbw {
namespace {

/// Start of every connect request. The last character is the format version.
constexpr std::string_view kMagic = "busbwhi1";

}  // namespace

Bytes PeerInfo::encoded() const {
  MessageWriter writer;
  writer.add(world_rank).add(host).add(loopback_namespace).add(interfaces.size());
  for (const Interface& interface : interfaces)
    writer.add(interface.name).add(interface.address.host()).add(interface.mask.host());
  return writer.bytes();
}

PeerInfo decode_peer_info(std::span<const std::byte> bytes) {
  MessageReader reader(bytes);
  PeerInfo info;
  info.world_rank = reader.take<int>();
  info.host = reader.take_text();
  info.loopback_namespace = reader.take_text();
  for (auto remaining = reader.take<std::size_t>(); remaining > 0; --remaining) {
    std::string name = reader.take_text();
    const Endpoint address = endpoint_of(reader.take_text(), 0);
    info.interfaces.push_back({std::move(name), address, endpoint_of(reader.take_text(), 0)});
  }
  return info;
}

ListenerCredentials new_listener_credentials(std::uint16_t port) {
  return {port, random_bytes<sizeof(ListenerCredentials::Secret)>(),
          random_bytes<sizeof(ListenerCredentials::Secret)>()};
}

ConnectRequest::Encoded ConnectRequest::encoded() const {
  Encoded bytes;
  static_assert(kMagic.size() + sizeof from + sizeof to + sizeof secret == kBytes);
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  std::memcpy(bytes.data() + kMagic.size(), &from, sizeof from);
  std::memcpy(bytes.data() + kMagic.size() + sizeof from, &to, sizeof to);
  std::memcpy(bytes.data() + kMagic.size() + sizeof from + sizeof to, secret.data(), sizeof secret);
  return bytes;
}

std::optional<ConnectRequest> decode_connect_request(const ConnectRequest::Encoded& bytes) {
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) return std::nullopt;
  ConnectRequest request;
  std::memcpy(&request.from, bytes.data() + kMagic.size(), sizeof request.from);
  std::memcpy(&request.to, bytes.data() + kMagic.size() + sizeof request.from, sizeof request.to);
  std::memcpy(request.secret.data(), bytes.data() + kMagic.size() + sizeof request.from + sizeof request.to,
              sizeof request.secret);
  return request;
}

}  // namespace busbw
