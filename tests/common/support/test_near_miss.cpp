#include "common/support/near_miss.hpp"

#include <doctest/doctest.h>

#include <array>

using namespace busbw;

namespace {

constexpr std::array<std::string_view, 6> kNames{"float", "double", "int8", "uint8", "--minbytes", "--maxbytes"};

}  // namespace

TEST_CASE("near_miss: swapped, missing, additional and wrong letters") {
  for (const char* word : {"flaot", "loat", "floaat", "flout", "FLOAT", "float3"})
    CHECK_MESSAGE(near_miss(word, kNames) == "float", word);
  CHECK(near_miss("--minbyte", kNames) == "--minbytes");
  CHECK(near_miss("int", kNames) == "int8");
}

TEST_CASE("near_miss: a beginning, if it is unique") {
  CHECK(near_miss("--min", kNames) == "--minbytes");
  CHECK(near_miss("--m", kNames).empty());
  constexpr std::array<std::string_view, 1> kUpperCase{"NCCL_TESTS_SPLIT_MASK"};
  CHECK(near_miss("nccl_tests", kUpperCase) == "NCCL_TESTS_SPLIT_MASK");
}

TEST_CASE("near_miss: none for other, short, empty and very long words") {
  for (const char* word : {"complex", "--records", "-Q", "", "f"}) CHECK_MESSAGE(near_miss(word, kNames).empty(), word);
  CHECK(near_miss(std::string(100'000, 'f'), kNames).empty());
  CHECK(near_miss("float", {}).empty());
}

TEST_CASE("suggestion: an addition to the word") {
  CHECK(suggestion("flaot", kNames) == " (did you mean float?)");
  CHECK(suggestion("complex", kNames).empty());
}
