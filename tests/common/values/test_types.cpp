#include "common/values/types.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace busbw;

TEST_CASE("types: nccl-tests' names and order of element types") {
  const std::vector<std::string_view> names{"int8", "uint8", "int32",  "uint32",   "int64",  "uint64",
                                            "half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2"};
  REQUIRE(kDtypes.size() == names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    CHECK(name(kDtypes[i]) == names[i]);
    CHECK(dtype_of(names[i]) == kDtypes[i]);
  }
}

TEST_CASE("types: nccl-tests' names and order of operators") {
  const std::vector<std::string_view> names{"sum", "prod", "max", "min", "avg", "mulsum"};
  REQUIRE(kRedops.size() == names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    CHECK(name(kRedops[i]) == names[i]);
    CHECK(redop_of(names[i]) == kRedops[i]);
  }
}

TEST_CASE("types: only exact names are accepted") {
  for (const char* text : {"", "flaot", "Float", "float32", "float ", "char", "int", "all"})
    CHECK_FALSE(dtype_of(text));
  for (const char* text : {"", "SUM", "sum ", "mean", "premulsum", "none", "all"}) CHECK_FALSE(redop_of(text));
}

TEST_CASE("types: element sizes") {
  const auto size_of = [](const char* name) { return size_bytes(*dtype_of(name)); };
  for (const char* name : {"int8", "uint8", "f8e4m3", "f8e5m2"}) CHECK(size_of(name) == 1);
  for (const char* name : {"half", "bfloat16"}) CHECK(size_of(name) == 2);
  for (const char* name : {"int32", "uint32", "float"}) CHECK(size_of(name) == 4);
  for (const char* name : {"int64", "uint64", "double"}) CHECK(size_of(name) == 8);
}

TEST_CASE("types: placement names as in records") {
  CHECK(name(Placement::out_of_place) == "out_of_place");
  CHECK(name(Placement::in_place) == "in_place");
}
