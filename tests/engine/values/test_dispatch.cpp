#include "values/dispatch.hpp"

#include <stdexcept>
#include <string_view>
#include <type_traits>

#include <doctest/doctest.h>

using namespace busbw;

TEST_CASE("each type is held by a C++ type of its size and kind") {
  for (const Dtype dtype : kDtypes) {
    CAPTURE(name(dtype));
    CHECK(with_element_type(dtype, []<class T>() { return sizeof(T); }) == size_bytes(dtype));
    const bool is_integer = name(dtype).find("int") != std::string_view::npos;
    CHECK(with_element_type(dtype, []<class T>() { return kIsFloat<T> || std::is_floating_point_v<T>; }) ==
          !is_integer);
  }
  CHECK(with_element_type(Dtype::int8, []<class T>() { return std::is_same_v<T, std::int8_t>; }));
  CHECK(with_element_type(Dtype::uint64, []<class T>() { return std::is_same_v<T, std::uint64_t>; }));
  CHECK(with_element_type(Dtype::float16, []<class T>() { return std::is_same_v<T, Float16>; }));
  CHECK(with_element_type(Dtype::bfloat16, []<class T>() { return std::is_same_v<T, Bfloat16>; }));
  CHECK(with_element_type(Dtype::f8e4m3, []<class T>() { return std::is_same_v<T, F8e4m3>; }));
  CHECK(with_element_type(Dtype::f8e5m2, []<class T>() { return std::is_same_v<T, F8e5m2>; }));
}

TEST_CASE("a value that is not a type is an error") {
  CHECK_THROWS_AS(with_element_type(static_cast<Dtype>(99), []<class T>() { return sizeof(T); }), std::logic_error);
}
