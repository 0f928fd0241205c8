#pragma once
// A communicator's symmetric windows: buffers that every rank has registered at the same time, of which each rank knows
// where the others' are.
#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "fastpath/choice/operation.hpp"

namespace busbw::fastpath {

/// One window, as this rank's GPU sees it.
struct Window {
  const void* handle = nullptr;  ///< NCCL's
  char* own = nullptr;           ///< this rank's buffer
  std::size_t bytes = 0;
  std::array<char*, kMaxRanks> of_rank{};  ///< every rank's buffer
};

class Windows {
 public:
  void add(const Window& window);
  void remove(const void* handle);

  /// Where every rank's buffers of this call are; empty where one is in no window, or the call is not one for `direct`.
  /// NCCL wants buffers of symmetric windows at the same place in them on every rank, so all ranks come to the same
  /// answer.
  std::optional<PeerBuffers> peer_buffers(const CollectiveCall& call, int ranks) const noexcept;

 private:
  const Window* find(const void* buffer, std::size_t bytes) const noexcept;

  std::vector<Window> all_;  // by address
};

}  // namespace busbw::fastpath
