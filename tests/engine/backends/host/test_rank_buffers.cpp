#include "backends/host/rank_buffers.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "common/support/error.hpp"

using namespace busbw;

namespace {

/// True if the parent sees what a forked child writes.
bool child_writes_through(const RankBuffers& buffers) {
  const pid_t child = fork();
  if (child == 0) {
    buffers.front()[100] = std::byte{42};
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  return buffers.front()[100] == std::byte{42};
}

}  // namespace

TEST_CASE("RankBuffers: zeroed, aligned, writable to the end") {
  for (const Sharing sharing : {Sharing::threads, Sharing::processes}) {
    const RankBuffers buffers(1, RankBuffers::kAlignment + 17, 4096, sharing);
    const auto last = buffers.recv_buffer(0);
    CHECK(reinterpret_cast<std::uintptr_t>(buffers.front()) % RankBuffers::kAlignment == 0);
    CHECK(std::all_of(buffers.front(), &last.back() + 1, [](std::byte byte) { return byte == std::byte{0}; }));
    std::fill(buffers.front(), &last.back() + 1, std::byte{1});
    CHECK(last.back() == std::byte{1});
  }
}

TEST_CASE("RankBuffers: processes see each other's writes only with Sharing::processes") {
  const RankBuffers shared(1, 4096, 4096, Sharing::processes);
  CHECK(child_writes_through(shared));
  const RankBuffers own(1, 4096, 4096, Sharing::threads);
  CHECK_FALSE(child_writes_through(own));
}

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

TEST_CASE("RankBuffers: a mapping that fails is an EnvironmentError that names the bytes") {
  try {
    RankBuffers buffers(1, std::size_t{1} << 59, 0, Sharing::threads);
    FAIL("mapped");
  } catch (const EnvironmentError& error) {
    CHECK(std::string(error.what()).find(std::to_string(std::size_t{1} << 60)) != std::string::npos);
  }
}
