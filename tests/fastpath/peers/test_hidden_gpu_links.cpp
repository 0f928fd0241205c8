#include "fastpath/peers/hidden_gpu_links.hpp"

#include <dlfcn.h>
#include <doctest/doctest.h>

using namespace busbw::fastpath;

namespace {

// GPUs of fakes/nvml.cpp. NVLink connects the first two, the third uses PCI Express, and the fourth has no write
// access.
constexpr const char* kA = "0000:0a:00.0";
constexpr const char* kB = "0000:0b:00.0";
constexpr const char* kC = "0000:0c:00.0";
constexpr const char* kD = "0000:0d:00.0";

/// Returns the number of users of the fake library.
int users() {
  void* const library = dlopen(NVML, RTLD_NOW | RTLD_LOCAL);
  const int count = *static_cast<int*>(dlsym(library, "users"));
  dlclose(library);
  return count;
}

}  // namespace

TEST_CASE("hidden GPUs: NVML reports NVLink connections") {
  HiddenGpuLinks gpus(NVML);
  CHECK(gpus.are_joined_by_nvlink(kA, kB));
  CHECK(gpus.are_joined_by_nvlink(kB, kA));
}

TEST_CASE("hidden GPUs: neither PCI Express nor links without write access are enough") {
  HiddenGpuLinks gpus(NVML);
  CHECK_FALSE(gpus.are_joined_by_nvlink(kA, kC));
  CHECK_FALSE(gpus.are_joined_by_nvlink(kC, kB));
  CHECK_FALSE(gpus.are_joined_by_nvlink(kA, kD));
}

TEST_CASE("hidden GPUs: a GPU that NVML does not know has no links") {
  HiddenGpuLinks gpus(NVML);
  CHECK_FALSE(gpus.are_joined_by_nvlink(kA, "0000:0e:00.0"));
  CHECK_FALSE(gpus.are_joined_by_nvlink("", kA));
}

TEST_CASE("hidden GPUs: no links without NVML, without a driver or with an old NVML") {
  for (const char* library : {"libthere-is-none.so.1", "libm.so.6", DEAD_NVML, OLD_NVML})
    CHECK_FALSE(HiddenGpuLinks(library).are_joined_by_nvlink(kA, kB));
}

TEST_CASE("hidden GPUs: NVML is loaded once, at the first query, and closed at the end") {
  void* const held = dlopen(NVML, RTLD_NOW | RTLD_LOCAL);  // keeps its user count in memory
  {
    HiddenGpuLinks gpus(NVML);
    CHECK(users() == 0);
    for (int i = 0; i < 3; ++i) gpus.are_joined_by_nvlink(kA, kB);
    CHECK(users() == 1);
  }
  CHECK(users() == 0);
  dlclose(held);
}
