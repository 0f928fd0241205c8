#include "backends/host/arena.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "common/support/error.hpp"

using namespace busbw;

namespace {

/// True if the parent sees what a forked child writes.
bool child_writes_through(Arena& arena) {
  const pid_t child = fork();
  if (child == 0) {
    arena.data()[100] = std::byte{42};
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  return arena.data()[100] == std::byte{42};
}

}  // namespace

TEST_CASE("Arena: zeroed, aligned, writable to its end") {
  for (const Sharing sharing : {Sharing::threads, Sharing::processes}) {
    const std::size_t bytes = 3 * Arena::kAlignment + 17;
    Arena arena(bytes, sharing);
    CHECK(arena.size() == bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(arena.data()) % Arena::kAlignment == 0);
    CHECK(std::all_of(arena.data(), arena.data() + bytes, [](std::byte byte) { return byte == std::byte{0}; }));
    std::fill(arena.data(), arena.data() + bytes, std::byte{1});
    CHECK(arena.data()[bytes - 1] == std::byte{1});
  }
}

TEST_CASE("Arena: processes see each other's writes only with Sharing::processes") {
  Arena shared(4096, Sharing::processes);
  CHECK(child_writes_through(shared));
  Arena own(4096, Sharing::threads);
  CHECK_FALSE(child_writes_through(own));
}

TEST_CASE("Arena: a mapping that fails is an EnvironmentError that names the bytes") {
  for (const std::size_t bytes : {std::numeric_limits<std::size_t>::max(), std::size_t{1} << 60}) {
    try {
      Arena arena(bytes, Sharing::threads);
      FAIL("mapped");
    } catch (const EnvironmentError& error) {
      CHECK(std::string(error.what()).find(std::to_string(bytes)) != std::string::npos);
    }
  }
}
