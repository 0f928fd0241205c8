#include "common/support/process_ranks.hpp"

#include <doctest/doctest.h>

using namespace busbw;

TEST_CASE("process_ranks_text: one rank, or the first and the last") {
  CHECK(process_ranks_text(3, 1) == "rank 3");
  CHECK(process_ranks_text(1, 4) == "ranks 4 to 7");
}
