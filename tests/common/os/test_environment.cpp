#include "common/os/environment.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace busbw;

TEST_CASE("process_environment: the value, even if empty; nothing if not set") {
  setenv("BUSBW_TEST_VARIABLE", "a value", 1);
  CHECK(process_environment("BUSBW_TEST_VARIABLE") == "a value");
  setenv("BUSBW_TEST_VARIABLE", "", 1);
  CHECK(process_environment("BUSBW_TEST_VARIABLE") == "");
  unsetenv("BUSBW_TEST_VARIABLE");
  CHECK_FALSE(process_environment("BUSBW_TEST_VARIABLE"));
}
