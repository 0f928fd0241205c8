#pragma once
// Symmetric windows of a communicator: buffers that all ranks have registered together. Each rank knows the addresses
// of the other ranks' buffers.
#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "fastpath/choice/operation.hpp"

namespace busbw::fastpath {

/// One window, with addresses for this rank's GPU.
struct Window {
  const void* handle = nullptr;  ///< NCCL's handle
  char* own = nullptr;           ///< this rank's buffer
  std::size_t bytes = 0;
  std::array<char*, kMaxRanks> rank_addresses{};  ///< every rank's buffer
};

/// The windows of one communicator on one rank.
class Windows {
 public:
  void add(const Window& window);
  void remove(const void* handle);

  /// Returns the addresses of every rank's buffers of this call. Nullopt if a buffer is outside all windows, or if
  /// `direct` does not support the call. NCCL requires the same offset in the window on every rank. So either all ranks
  /// get addresses or no rank does.
  std::optional<PeerBuffers> peer_buffers(const CollectiveCall& call, int ranks) const noexcept;

 private:
  /// Returns the window that contains the whole buffer. Null if no window contains the buffer. Checks only the last
  /// window that starts at or before the buffer, so overlapping windows are not supported.
  const Window* find(const void* buffer, std::size_t bytes) const noexcept;

  std::vector<Window> windows_;  // sorted by the address of this rank's buffer
};

}  // namespace busbw::fastpath
