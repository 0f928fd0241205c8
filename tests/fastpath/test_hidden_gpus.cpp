#include <doctest/doctest.h>

#include "fastpath/hidden_gpus.hpp"

using namespace busbw::fastpath;

namespace {

constexpr const char* kA = "0000:0a:00.0";
constexpr const char* kB = "0000:0b:00.0";
constexpr const char* kC = "0000:0c:00.0";

}  // namespace

TEST_CASE("GPUs that CUDA does not show: NVML knows which NVLink joins") {
  CHECK(nvml_finds_nvlink(kA, kB, NVML));
  CHECK(nvml_finds_nvlink(kB, kA, NVML));
}

TEST_CASE("GPUs that CUDA does not show: those that reach each other over PCI Express are not joined") {
  CHECK_FALSE(nvml_finds_nvlink(kA, kC, NVML));
  CHECK_FALSE(nvml_finds_nvlink(kC, kB, NVML));
}

TEST_CASE("GPUs that CUDA does not show: one that NVML does not know is not joined to any") {
  CHECK_FALSE(nvml_finds_nvlink(kA, "0000:0d:00.0", NVML));
  CHECK_FALSE(nvml_finds_nvlink("", kA, NVML));
}

TEST_CASE("GPUs that CUDA does not show: without NVML, without its driver or with an old one nothing is known") {
  CHECK_FALSE(nvml_finds_nvlink(kA, kB, "libthere-is-none.so.1"));
  CHECK_FALSE(nvml_finds_nvlink(kA, kB, "libm.so.6"));
  CHECK_FALSE(nvml_finds_nvlink(kA, kB, DEAD_NVML));
  CHECK_FALSE(nvml_finds_nvlink(kA, kB, OLD_NVML));
}
