// Finds the window of a buffer and translates the buffer's address to every rank.
#include "fastpath/peers/windows.hpp"

#include <algorithm>
#include <functional>
#include <iterator>

namespace busbw::fastpath {

void Windows::add(const Window& window) {
  windows_.insert(std::ranges::upper_bound(windows_, window.own, std::less<>(), &Window::own), window);
}

void Windows::remove(const void* handle) {
  std::erase_if(windows_, [handle](const Window& window) { return window.handle == handle; });
}

const Window* Windows::find(const void* buffer, std::size_t bytes) const noexcept {
  const auto* const begin = static_cast<const char*>(buffer);
  const auto first_after = std::ranges::upper_bound(windows_, begin, std::less<>(), &Window::own);
  if (first_after == windows_.begin()) return nullptr;
  const Window& window = *std::prev(first_after);
  const auto offset = static_cast<std::size_t>(begin - window.own);
  const bool contains_buffer = bytes <= window.bytes && offset <= window.bytes - bytes;
  return contains_buffer ? &window : nullptr;
}

std::optional<PeerBuffers> Windows::peer_buffers(const CollectiveCall& call, int ranks) const noexcept {
  if (windows_.empty() || !supports_direct(call)) return std::nullopt;
  const Window* const send = find(call.send, send_bytes(call, ranks));
  const Window* const receive = find(call.receive, receive_bytes(call, ranks));
  if (send == nullptr || receive == nullptr) return std::nullopt;
  PeerBuffers peers;
  const auto send_offset = static_cast<const char*>(call.send) - send->own;
  const auto receive_offset = static_cast<const char*>(call.receive) - receive->own;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
    peers.send[rank] = send->rank_addresses[rank] + send_offset;
    peers.receive[rank] = receive->rank_addresses[rank] + receive_offset;
  }
  return peers;
}

}  // namespace busbw::fastpath
