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
