// Encodes the facts about a rank that its peers need to connect to it.
#include "backends/host/sockets/peer_info.hpp"

#include <utility>

namespace busbw {

Bytes PeerInfo::encoded() const {
  MessageWriter writer;
  writer.add(world_rank).add(rank).add(host).add(loopback_namespace).add(interfaces.size());
  for (const Interface& interface : interfaces)
    writer.add(interface.name).add(interface.address.host()).add(interface.mask.host());
  return writer.bytes();
}

PeerInfo decode_peer_info(std::span<const std::byte> bytes) {
  MessageReader reader(bytes);
  PeerInfo info;
  info.world_rank = reader.take<int>();
  info.rank = reader.take<int>();
  info.host = reader.take_text();
  info.loopback_namespace = reader.take_text();
  for (auto remaining = reader.take<std::size_t>(); remaining > 0; --remaining) {
    std::string name = reader.take_text();
    const Endpoint address = endpoint_of(reader.take_text(), 0);
    info.interfaces.push_back({std::move(name), address, endpoint_of(reader.take_text(), 0)});
  }
  return info;
}

}  // namespace busbw
