#include "support/program_file.hpp"

#include <doctest/doctest.h>

#include <string>

namespace busbw {

TEST_CASE("program_build: the 20 bytes that the linker gave") {
  const auto build = program_build();
  REQUIRE(build.has_value());
  CHECK(build->size() == 40);
  CHECK(build->find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(program_build() == build);
}

TEST_CASE("program_path: where this program lies") {
  const auto path = program_path();
  REQUIRE(path.has_value());
  CHECK(path->starts_with('/'));
}

}  // namespace busbw
