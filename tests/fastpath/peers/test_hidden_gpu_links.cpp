#include "fastpath/peers/hidden_gpu_links.hpp"

#include <dlfcn.h>
#include <doctest/doctest.h>

using namespace busbw::fastpath;

namespace {

// Of fakes/nvml.cpp: the first two are joined, the third reaches them over PCI Express, and the fourth may not write.
constexpr const char* kA = "0000:0a:00.0";
constexpr const char* kB = "0000:0b:00.0";
constexpr const char* kC = "0000:0c:00.0";
constexpr const char* kD = "0000:0d:00.0";

/// How many have the fake open.
int users() {
  void* const library = dlopen(NVML, RTLD_NOW | RTLD_LOCAL);
  const int count = *static_cast<int*>(dlsym(library, "users"));
  dlclose(library);
  return count;
}

}  // namespace

TEST_CASE("GPUs that CUDA does not show: NVML knows which NVLink joins") {
  HiddenGpuLinks gpus(NVML);
  CHECK(gpus.are_joined_by_nvlink(kA, kB));
  CHECK(gpus.are_joined_by_nvlink(kB, kA));
}

TEST_CASE("GPUs that CUDA does not show: reaching each other over PCI Express is not enough, nor are links alone") {
  HiddenGpuLinks gpus(NVML);
  CHECK_FALSE(gpus.are_joined_by_nvlink(kA, kC));
  CHECK_FALSE(gpus.are_joined_by_nvlink(kC, kB));
  CHECK_FALSE(gpus.are_joined_by_nvlink(kA, kD));
}

TEST_CASE("GPUs that CUDA does not show: one that NVML does not know is not joined to any") {
  HiddenGpuLinks gpus(NVML);
  CHECK_FALSE(gpus.are_joined_by_nvlink(kA, "0000:0e:00.0"));
  CHECK_FALSE(gpus.are_joined_by_nvlink("", kA));
}

TEST_CASE("GPUs that CUDA does not show: without NVML, without its driver or with an old one nothing is known") {
  for (const char* library : {"libthere-is-none.so.1", "libm.so.6", DEAD_NVML, OLD_NVML})
    CHECK_FALSE(HiddenGpuLinks(library).are_joined_by_nvlink(kA, kB));
}

TEST_CASE("GPUs that CUDA does not show: NVML is opened when it is asked, once, and closed in the end") {
  void* const held = dlopen(NVML, RTLD_NOW | RTLD_LOCAL);  // so that its count stays
  {
    HiddenGpuLinks gpus(NVML);
    CHECK(users() == 0);
    for (int i = 0; i < 3; ++i) gpus.are_joined_by_nvlink(kA, kB);
    CHECK(users() == 1);
  }
  CHECK(users() == 0);
  dlclose(held);
}
