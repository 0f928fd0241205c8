#include "backends/nccl/type_support.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "support_errors.hpp"

using namespace busbw;

namespace {

constexpr std::array kFloat8{Dtype::f8e4m3, Dtype::f8e5m2};

OpenedLibrary library(int version) { return {nullptr, version, "/lib/libnccl.so.2"}; }

std::vector<Gpu> gpus(std::vector<std::optional<int>> capabilities, int first_number = 0) {
  std::vector<Gpu> all;
  for (const auto& capability : capabilities)
    all.push_back({first_number + static_cast<int>(all.size()),
                   "a GPU",
                   "0000:0" + std::to_string(all.size()) + ":00",
                   {},
                   capability});
  return all;
}

}  // namespace

TEST_CASE("type_limitation: NCCL before 2.24 has no 8-bit floats, to move or to reduce, on any GPU") {
  for (const Dtype dtype : kDtypes) {
    for (const bool reduces : {false, true}) {
      const bool is_float8 = std::ranges::find(kFloat8, dtype) != kFloat8.end();
      CHECK(type_limitation(dtype, library(22304), gpus({90}), reduces).has_value() == is_float8);
      CHECK_FALSE(type_limitation(dtype, library(22403), gpus({90}), reduces));
    }
  }
  const Limitation limitation = type_limitation(Dtype::f8e4m3, library(21803), gpus({90}), false).value();
  CHECK(limitation.reason == "NCCL 2.18.3 (/lib/libnccl.so.2) has no 8-bit floats");
  check_names(limitation.remedy, {"2.24 or later", "--library", "BUSBW_NCCL_LIBRARY"});
}

TEST_CASE(
    "type_limitation: 8-bit floats are reduced from compute capability 9.0 on, and moved by every GPU since 2.28") {
  for (const Dtype dtype : kFloat8) {
    const auto old = gpus({90, 89, 80}, 4);
    CHECK_FALSE(type_limitation(dtype, library(22809), old, false));
    const auto limitation = type_limitation(dtype, library(22809), old, true);
    REQUIRE(limitation);
    check_names(limitation->reason, {"compute capability 9.0", "GPU 5 (0000:01:00) has 8.9"});
    CHECK_FALSE(type_limitation(dtype, library(22809), gpus({90, 100, 120}), true));
  }
  CHECK_FALSE(type_limitation(Dtype::bfloat16, library(22809), gpus({75}), true));
}

TEST_CASE("type_limitation: before 2.28 older GPUs do not move 8-bit floats either") {
  for (const Dtype dtype : kFloat8) {
    const auto limitation = type_limitation(dtype, library(22707), gpus({90, 80}), false);
    REQUIRE(limitation);
    check_names(limitation->reason, {"NCCL 2.27.7", "moves", "compute capability 9.0", "GPU 1 (0000:01:00) has 8.0"});
    check_names(limitation->remedy, {"newer GPUs", "2.28 or later", "--library"});
    CHECK_FALSE(type_limitation(dtype, library(22707), gpus({90}), false));
    CHECK_FALSE(type_limitation(dtype, library(22803), gpus({90, 80}), false));
  }
}

TEST_CASE("type_limitation: unknown GPUs and libraries have no limitation") {
  CHECK_FALSE(type_limitation(Dtype::f8e5m2, library(22809), gpus({{}, 90}), true));
  // Another library's version says nothing about its features, and NCCL's rule for GPUs does not apply to it.
  CHECK_FALSE(type_limitation(Dtype::f8e5m2, library(900), gpus({80}), true));
}
