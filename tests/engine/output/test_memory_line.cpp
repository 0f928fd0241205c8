#include "output/memory_line.hpp"

#include <doctest/doctest.h>

using namespace busbw;

TEST_CASE("memory_text: binary units and about three digits, as nccl-tests prints bytes") {
  CHECK(memory_text(0) == "0.00 B");
  CHECK(memory_text(9) == "9.00 B");
  CHECK(memory_text(99) == "99.0 B");
  CHECK(memory_text(1023) == "1023 B");
  CHECK(memory_text(1024) == "1.00 KB");
  CHECK(memory_text(64 << 20) == "64.0 MB");
  CHECK(memory_text(345 << 20) == "345 MB");
  CHECK(memory_text(std::int64_t{1270} << 20) == "1.24 GB");
  CHECK(memory_text(std::int64_t{2048} << 30) == "2048 GB");
  CHECK(memory_text(-(2 << 20)) == "-2.00 MB");
}

TEST_CASE("memory_line: the largest of all ranks, and their sum") {
  const std::vector<MemoryUse> ranks{
      {.context_bytes = 5, .library_bytes = 1 << 20, .buffer_bytes = 64 << 20, .collective_bytes = 0},
      {.context_bytes = {}, .library_bytes = 2 << 20, .buffer_bytes = 64 << 20, .collective_bytes = -1024}};
  CHECK(memory_line(ranks) ==
        "# GPU memory usage     : Initialization 2.00 MB | User-Allocated 64.0 MB | Collective 0.00 B | Total  66.0 "
        "MB\n");
}

TEST_CASE("memory_line: unknown figures are N/A, and empty without -M") {
  CHECK(memory_line({}).empty());
  CHECK(memory_line({MemoryUse{}}) ==
        "# GPU memory usage     : Initialization N/A | User-Allocated N/A | Collective N/A | Total  N/A\n");
  MemoryUse one;
  one.buffer_bytes = 1024;
  CHECK(memory_line({one}) ==
        "# GPU memory usage     : Initialization N/A | User-Allocated 1.00 KB | Collective N/A | Total  1.00 KB\n");
}
