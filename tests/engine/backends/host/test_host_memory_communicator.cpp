#include "backends/host/host_memory_communicator.hpp"

#include <doctest/doctest.h>

#include <array>

using namespace busbw;

TEST_CASE("copy_bytes: copies, and does nothing in place") {
  std::array<std::byte, 4> from{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}}, to{};
  copy_bytes(to.data(), from.data(), 3);
  CHECK(to == std::array{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{0}});
  copy_bytes(to.data(), to.data(), 3);
  copy_bytes(nullptr, nullptr, 0);
  CHECK(to[0] == std::byte{1});
}
