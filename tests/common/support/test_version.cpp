#include "common/support/version.hpp"

#include <doctest/doctest.h>

#include <algorithm>

TEST_CASE("version: three numbers separated by dots") {
  const auto version = busbw::version();
  CHECK(version.find_first_not_of("0123456789.") == version.npos);
  CHECK(std::ranges::count(version, '.') == 2);
  CHECK(version.find("..") == version.npos);
  CHECK((version.front() != '.' && version.back() != '.'));
}
