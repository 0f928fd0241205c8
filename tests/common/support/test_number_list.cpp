#include "common/support/number_list.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <vector>

using namespace busbw;

TEST_CASE("number_list_text: lists the first eight numbers and counts the rest") {
  std::vector<int> numbers(20);
  std::iota(numbers.begin(), numbers.end(), 3);
  const std::span<const int> all(numbers);
  CHECK(number_list_text(all.first(0)) == "");
  CHECK(number_list_text(all.first(1)) == "3");
  CHECK(number_list_text(all.first(2)) == "3 and 4");
  CHECK(number_list_text(all.first(8)) == "3, 4, 5, 6, 7, 8, 9 and 10");
  CHECK(number_list_text(all) == "3, 4, 5, 6, 7, 8, 9, 10 and 12 more");
}

TEST_CASE("process_ranks_text: one rank, or the first and the last") {
  CHECK(process_ranks_text(3, 1) == "rank 3");
  CHECK(process_ranks_text(1, 4) == "ranks 4 to 7");
}
