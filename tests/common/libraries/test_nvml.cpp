#include "common/libraries/nvml.hpp"

#include <dlfcn.h>
#include <doctest/doctest.h>

using namespace busbw;

namespace {

// GPUs of fakes/nvml.cpp. NVLink connects the first two, the third uses PCI Express, and the fourth has no write
// access.
constexpr const char* kBusId = "0000:0f:00";
constexpr const char* kLinkedBusId = "0000:0b:00";
constexpr const char* kPcieBusId = "0000:0c:00";
constexpr const char* kReadOnlyBusId = "0000:0d:00";

NvmlGpu gpu_of(const char* library) {
  const auto gpu = Nvml(library).gpu(kBusId);
  REQUIRE(gpu);
  return *gpu;
}

}  // namespace

TEST_CASE("Nvml: clocks in hertz, and the texts of the throttle reasons") {
  const NvmlGpu gpu = gpu_of(BUSBW_FAKE_NVML);
  CHECK(gpu.clock_hz() == 1.83e9);
  CHECK(gpu.max_clock_hz() == 1.98e9);
  CHECK(gpu.throttle_reasons() == std::vector<std::string>{"power limit", "temperature (hardware)"});
}

TEST_CASE("Nvml: drivers before 535 use another function name") {
  CHECK(gpu_of(BUSBW_FAKE_NVML_OLD_NAME).throttle_reasons().size() == 2);
}

TEST_CASE("Nvml: driver version, GPU UUID and active links") {
  CHECK(Nvml(BUSBW_FAKE_NVML).driver_version() == "580.95.05");
  const NvmlGpu gpu = gpu_of(BUSBW_FAKE_NVML);
  CHECK(gpu.uuid() == "GPU-00000000-0000-0000-0000-000000000001");
  CHECK(gpu.nvlinks() == 17);
}

TEST_CASE("Nvml: values that the library lacks are empty, not zero") {
  const Nvml nvml(BUSBW_FAKE_NVML_BARE);
  CHECK(nvml.is_available());
  CHECK_FALSE(nvml.driver_version());
  CHECK_FALSE(nvml.are_joined_by_nvlink(kBusId, kLinkedBusId));
  const NvmlGpu gpu = gpu_of(BUSBW_FAKE_NVML_BARE);
  CHECK(gpu.clock_hz() == 1.83e9);
  CHECK_FALSE(gpu.max_clock_hz());
  CHECK(gpu.throttle_reasons().empty());
  CHECK_FALSE(gpu.uuid());
  CHECK_FALSE(gpu.nvlinks());
  CHECK_FALSE(gpu.process_bytes());
}

TEST_CASE("Nvml: this process's GPU memory; a single process is taken as this one") {
  CHECK(gpu_of(BUSBW_FAKE_NVML).process_bytes() == std::int64_t{512} << 20);
  CHECK(gpu_of(BUSBW_FAKE_NVML_OLD_NAME).process_bytes() == std::int64_t{300} << 20);
}

TEST_CASE("Nvml: no library, no driver, no such GPU") {
  for (const char* library : {"libbusbw-none.so.1", "libm.so.6", BUSBW_FAKE_NVML_DEAD}) {
    const Nvml nvml(library);
    CHECK_FALSE(nvml.is_available());
    CHECK_FALSE(nvml.driver_version());
    CHECK_FALSE(nvml.gpu(kBusId));
    CHECK_FALSE(nvml.are_joined_by_nvlink(kBusId, kLinkedBusId));
  }
  CHECK_FALSE(Nvml(BUSBW_FAKE_NVML).gpu("0000:10:00"));
}

TEST_CASE("Nvml: two GPUs are joined by links with read and write access, not by PCI Express") {
  const Nvml nvml(BUSBW_FAKE_NVML);
  CHECK(nvml.are_joined_by_nvlink(kBusId, kLinkedBusId));
  CHECK(nvml.are_joined_by_nvlink(kLinkedBusId, kBusId));
  CHECK_FALSE(nvml.are_joined_by_nvlink(kBusId, kPcieBusId));
  CHECK_FALSE(nvml.are_joined_by_nvlink(kPcieBusId, kLinkedBusId));
  CHECK_FALSE(nvml.are_joined_by_nvlink(kBusId, kReadOnlyBusId));
  CHECK_FALSE(nvml.are_joined_by_nvlink(kBusId, "0000:0e:00"));
  CHECK_FALSE(nvml.are_joined_by_nvlink("", kBusId));
}

TEST_CASE("Nvml: the library is loaded once, at the first query, and closed with the last GPU object") {
  void* const held = dlopen(BUSBW_FAKE_NVML, RTLD_NOW | RTLD_LOCAL);  // keeps its user count in memory
  const int& users = *static_cast<int*>(dlsym(held, "users"));
  std::optional<NvmlGpu> gpu;
  {
    const Nvml nvml(BUSBW_FAKE_NVML);
    CHECK(users == 0);
    for (int i = 0; i < 3; ++i) gpu = nvml.gpu(kBusId);
    CHECK(users == 1);
  }
  CHECK(users == 1);
  gpu.reset();
  CHECK(users == 0);
  dlclose(held);
}

TEST_CASE("throttle_reason_texts: idle is not a throttle reason, and unknown bits have no text") {
  CHECK(throttle_reason_texts(0x1).empty());
  CHECK(throttle_reason_texts(0x1 | 0x8 | 0x8000000000000000).size() == 1);
  CHECK(throttle_reason_texts(0x1ff).size() == 8);
}
