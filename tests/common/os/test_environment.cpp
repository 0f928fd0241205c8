#include "common/os/environment.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace busbw;

TEST_CASE("process_environment: what is set, also when empty, and nothing when it is not") {
  setenv("BUSBW_TEST_VARIABLE", "a value", 1);
  CHECK(process_environment("BUSBW_TEST_VARIABLE") == "a value");
  setenv("BUSBW_TEST_VARIABLE", "", 1);
  CHECK(process_environment("BUSBW_TEST_VARIABLE") == "");
  unsetenv("BUSBW_TEST_VARIABLE");
  CHECK_FALSE(process_environment("BUSBW_TEST_VARIABLE"));
}
