#include "common/support/fnv1a.hpp"

#include <doctest/doctest.h>

using namespace busbw;

TEST_CASE("fnv1a: the published 64-bit test vectors") {
  CHECK(fnv1a("") == 0xcbf29ce484222325);
  CHECK(fnv1a("a") == 0xaf63dc4c8601ec8c);
  CHECK(fnv1a("foobar") == 0x85944171f73967e8);
  CHECK(fnv1a("\xff") == 0xaf64724c8602eb6e);
}
