#include "backends/host/rank_buffers.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "common/support/error.hpp"

using namespace busbw;

TEST_CASE("RankBuffers: each buffer has its own pages after the front memory") {
  const RankBuffers buffers(2, 5001, 8192, Sharing::threads);
  const std::byte* end = buffers.front() + 8192;
  for (const auto buffer :
       {buffers.send_buffer(0), buffers.recv_buffer(0), buffers.send_buffer(1), buffers.recv_buffer(1)}) {
    CHECK(buffer.size() == 5001);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % 4096 == 0);
    CHECK(buffer.data() >= end);
    std::ranges::fill(buffer, std::byte{1});
    end = buffer.data() + buffer.size();
  }
  CHECK(RankBuffers::page_aligned(0) == 0);
  CHECK(RankBuffers::page_aligned(1) == 4096);
  CHECK(RankBuffers::page_aligned(4096) == 4096);
}

TEST_CASE("RankBuffers: sizes beyond the address space are an EnvironmentError") {
  CHECK_THROWS_AS(RankBuffers(4, std::numeric_limits<std::size_t>::max() / 8, 0, Sharing::threads), EnvironmentError);
}
