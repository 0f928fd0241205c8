#include "backends/host/host_memory_communicator.hpp"

#include <doctest/doctest.h>

#include <array>
#include <vector>

using namespace busbw;

TEST_CASE("result_of: from the first byte received to the last, whatever the order; empty without any") {
  std::array<std::byte, 100> memory{};
  const std::vector<Transfer> recvs{{2, memory.data() + 40, 3}, {1, memory.data() + 8, 4}, {0, memory.data(), 0}};
  const auto result = result_of(recvs, 4);
  CHECK(result.data() == memory.data() + 8);
  CHECK(result.size() == 44);
  CHECK(result_of({}, 4).empty());
  CHECK(result_of(std::span(recvs).last(1), 4).empty());
}

TEST_CASE("copy_bytes: copies, and does nothing in place") {
  std::array<std::byte, 4> from{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}}, to{};
  copy_bytes(to.data(), from.data(), 3);
  CHECK(to == std::array{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{0}});
  copy_bytes(to.data(), to.data(), 3);
  copy_bytes(nullptr, nullptr, 0);
  CHECK(to[0] == std::byte{1});
}
