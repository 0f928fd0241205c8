#include "backends/nccl/nvml.hpp"

#include <doctest/doctest.h>

using namespace busbw;

namespace {

constexpr const char* kBusId = "0000:0f:00";

Nvml opened(const char* library) {
  const auto nvml = Nvml::open(library);
  REQUIRE(nvml);
  return *nvml;
}

}  // namespace

TEST_CASE("Nvml: clocks in hertz, and the texts of the throttle reasons") {
  const auto gpu = opened(BUSBW_FAKE_NVML).gpu(kBusId);
  REQUIRE(gpu);
  const DeviceClockState now = gpu->condition();
  CHECK(now.clock_hz == 1.83e9);
  CHECK(now.max_clock_hz == 1.98e9);
  CHECK(now.throttle_reasons == std::vector<std::string>{"power limit", "temperature (hardware)"});
}

TEST_CASE("Nvml: drivers before 535 use another function name") {
  CHECK(opened(BUSBW_FAKE_NVML_OLD_NAME).gpu(kBusId)->condition().throttle_reasons.size() == 2);
}

TEST_CASE("Nvml: driver version, GPU UUID and active links") {
  const Nvml nvml = opened(BUSBW_FAKE_NVML);
  CHECK(nvml.driver_version() == "580.95.05");
  const auto gpu = nvml.gpu(kBusId);
  REQUIRE(gpu);
  CHECK(gpu->uuid() == "GPU-00000000-0000-0000-0000-000000000001");
  CHECK(gpu->nvlinks() == 17);
}

TEST_CASE("Nvml: values that the library lacks are empty, not zero") {
  const Nvml nvml = opened(BUSBW_FAKE_NVML_BARE);
  CHECK_FALSE(nvml.driver_version());
  const auto gpu = nvml.gpu(kBusId);
  REQUIRE(gpu);
  const DeviceClockState now = gpu->condition();
  CHECK(now.clock_hz == 1.83e9);
  CHECK_FALSE(now.max_clock_hz);
  CHECK(now.throttle_reasons.empty());
  CHECK_FALSE(gpu->uuid());
  CHECK_FALSE(gpu->nvlinks());
  CHECK_FALSE(gpu->process_bytes());
}

TEST_CASE("Nvml: this process's GPU memory; a single process is taken as this one") {
  CHECK(opened(BUSBW_FAKE_NVML).gpu(kBusId)->process_bytes() == std::int64_t{512} << 20);
  CHECK(opened(BUSBW_FAKE_NVML_OLD_NAME).gpu(kBusId)->process_bytes() == std::int64_t{300} << 20);
}

TEST_CASE("Nvml: no library, no driver, no such GPU") {
  CHECK_FALSE(Nvml::open("libbusbw-none.so.1"));
  CHECK_FALSE(Nvml::open(BUSBW_FAKE_NVML_DEAD));
  CHECK_FALSE(opened(BUSBW_FAKE_NVML).gpu("0000:10:00"));
}

TEST_CASE("clock_event_texts: idle is not a throttle reason, and unknown bits have no text") {
  CHECK(clock_event_texts(0x1).empty());
  CHECK(clock_event_texts(0x1 | 0x8 | 0x8000000000000000).size() == 1);
  CHECK(clock_event_texts(0x1ff).size() == 8);
}
