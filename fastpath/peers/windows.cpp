#include "fastpath/peers/windows.hpp"

#include <algorithm>
#include <functional>
#include <iterator>

namespace busbw::fastpath {

void Windows::add(const Window& window) {
  all_.insert(std::ranges::upper_bound(all_, window.own, std::less<>(), &Window::own), window);
}

void Windows::remove(const void* handle) {
  std::erase_if(all_, [handle](const Window& one) { return one.handle == handle; });
}

const Window* Windows::find(const void* buffer, std::size_t bytes) const noexcept {
  const auto* const begin = static_cast<const char*>(buffer);
  const auto after = std::ranges::upper_bound(all_, begin, std::less<>(), &Window::own);
  if (after == all_.begin()) return nullptr;
  const Window& one = *std::prev(after);
  const auto offset = static_cast<std::size_t>(begin - one.own);
  return bytes <= one.bytes && offset <= one.bytes - bytes ? &one : nullptr;
}

std::optional<PeerBuffers> Windows::peer_buffers(const CollectiveCall& call, int ranks) const noexcept {
  if (all_.empty() || !supports_direct(call)) return std::nullopt;
  const std::size_t of_all = call.bytes * static_cast<std::size_t>(ranks);
  const Window* const send = find(call.send, call.collective == Collective::reduce_scatter ? of_all : call.bytes);
  const Window* const receive = find(call.receive, call.collective == Collective::all_gather ? of_all : call.bytes);
  if (send == nullptr || receive == nullptr) return std::nullopt;
  PeerBuffers peers;
  for (std::size_t r = 0; r < static_cast<std::size_t>(ranks); ++r) {
    peers.send[r] = send->of_rank[r] + (static_cast<const char*>(call.send) - send->own);
    peers.receive[r] = receive->of_rank[r] + (static_cast<char*>(call.receive) - receive->own);
  }
  return peers;
}

}  // namespace busbw::fastpath
