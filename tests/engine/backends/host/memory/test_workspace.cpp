#include "backends/host/memory/workspace.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "common/support/error.hpp"

using namespace busbw;

TEST_CASE("Workspace: buffers have the requested length, page alignment and no overlap") {
  constexpr int kRanks = 3;
  constexpr std::size_t kBytes = 5001;
  Workspace workspace(kRanks, kBytes, Sharing::threads);
  std::vector<std::span<std::byte>> buffers;
  for (int rank = 0; rank < kRanks; ++rank) {
    buffers.push_back(workspace.send_buffer(rank));
    buffers.push_back(workspace.recv_buffer(rank));
  }
  const auto* const control_end = reinterpret_cast<const std::byte*>(&workspace.rank_control(kRanks - 1) + 1);
  const auto* last_end = control_end;
  for (const auto buffer : buffers) {
    CHECK(buffer.size() == kBytes);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % 4096 == 0);
    CHECK(buffer.data() >= last_end);
    last_end = buffer.data() + buffer.size();
  }
  CHECK(workspace.channels().slot(kRanks - 1, kRanks - 1, 1) + workspace.channels().chunk_bytes() <= buffers[0].data());
  // Writing all of one buffer leaves the others as they are.
  std::fill(buffers[2].begin(), buffers[2].end(), std::byte{1});
  CHECK(buffers[1].back() == std::byte{0});
  CHECK(buffers[3].front() == std::byte{0});
}

TEST_CASE("Workspace: sizes beyond the address space are an EnvironmentError") {
  CHECK_THROWS_AS(Workspace(4, std::numeric_limits<std::size_t>::max() / 8, Sharing::threads), EnvironmentError);
}
