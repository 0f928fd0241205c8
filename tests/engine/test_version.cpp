#include "support/version.hpp"

#include <doctest/doctest.h>

#include <regex>
#include <string>

TEST_CASE("version: three numbers") {
  CHECK(std::regex_match(std::string(busbw::version()), std::regex("[0-9]+\\.[0-9]+\\.[0-9]+")));
}
