#include "common/libraries/opened_library.hpp"

#include <doctest/doctest.h>

using namespace busbw;

TEST_CASE("nccl_version_text: NCCL's current and old numbers, and other libraries' numbers") {
  CHECK(nccl_version_text(22809) == "2.28.9");
  CHECK(nccl_version_text(21805) == "2.18.5");
  CHECK(nccl_version_text(2804) == "2.8.4");
  CHECK(nccl_version_text(900) == "0.9.0");
}

TEST_CASE("is_nccl_version: NCCL's old and current version numbers, and no others") {
  for (const int version : {2000, 2804, 20906, 21805, 22403, 23001}) CHECK(is_nccl_version(version));
  for (const int version : {1, 900, 1999, 3000, 20899}) CHECK_FALSE(is_nccl_version(version));
}
