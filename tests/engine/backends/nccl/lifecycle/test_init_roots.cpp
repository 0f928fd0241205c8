#include "backends/nccl/lifecycle/init_roots.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace busbw;

TEST_CASE("init roots: NCCL's example of three roots for seven ranks") {
  std::vector<int> owners;
  for (int rank = 0; rank < 7; ++rank)
    if (is_first_of_root(rank, 7, 3)) owners.push_back(rank);
  CHECK(owners == std::vector{0, 3, 5});
}

TEST_CASE("init roots: every number of roots is spread evenly, beginning with rank 0") {
  for (int ranks = 1; ranks <= 40; ++ranks)
    for (int roots = 1; roots <= ranks; ++roots) {
      CAPTURE(ranks);
      CAPTURE(roots);
      std::vector<int> starts;
      for (int rank = 0; rank < ranks; ++rank)
        if (is_first_of_root(rank, ranks, roots)) starts.push_back(rank);
      REQUIRE(starts.size() == static_cast<std::size_t>(roots));
      CHECK(starts.front() == 0);
      starts.push_back(ranks);
      for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
        CHECK(starts[i + 1] - starts[i] >= ranks / roots);
        CHECK(starts[i + 1] - starts[i] <= (ranks + roots - 1) / roots);
      }
    }
}

TEST_CASE("init roots: several only above 256 ranks, and if the library accepts them") {
  CHECK(default_roots(1, true) == 1);
  CHECK(default_roots(256, true) == 1);
  CHECK(default_roots(257, true) == 2);
  CHECK(default_roots(1025, true) == 5);
  CHECK(default_roots(2048, true) == 8);
  CHECK(default_roots(65536, true) == 256);
  CHECK(default_roots(65536, false) == 1);
}
