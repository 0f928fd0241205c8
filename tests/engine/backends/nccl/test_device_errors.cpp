#include "backends/nccl/device_errors.hpp"

#include <doctest/doctest.h>

using namespace busbw;

TEST_CASE("device_error_sentence: says where, in doing what, what CUDA says, and what to do") {
  CHECK(
      device_error_message("rank 3 on GPU 0000:0f:00", "waiting for the GPU", "cudaErrorLaunchFailure",
                            "unspecified launch failure") ==
      "rank 3 on GPU 0000:0f:00: waiting for the GPU failed: unspecified launch failure (cudaErrorLaunchFailure), the "
      "GPU is lost to this job; an Xid message in the kernel's log (dmesg | grep Xid) names the GPU that failed, which "
      "may "
      "be another one of its process; nvidia-smi tells their state");
  CHECK(device_error_message("rank 0 on GPU 0000:0f:00", "choosing the GPU", "cudaErrorDevicesUnavailable", "busy") ==
        "rank 0 on GPU 0000:0f:00: choosing the GPU failed: busy (cudaErrorDevicesUnavailable); another process holds "
        "it: "
        "see nvidia-smi for processes and for the compute mode");
}

TEST_CASE("device_error_sentence: an error that nobody knows still has a remedy") {
  CHECK(device_error_message("rank 1", "recording", "cudaErrorOfTomorrow", "new") ==
        "rank 1: recording failed: new (cudaErrorOfTomorrow); see nvidia-smi and the kernel's log (dmesg | grep -i "
        "nvrm)");
}

TEST_CASE("is_device_lost: what a context does not survive, and nothing else") {
  for (const char* name : {"cudaErrorECCUncorrectable", "cudaErrorLaunchFailure", "cudaErrorIllegalAddress",
                           "cudaErrorNvlinkUncorrectable", "cudaErrorUnknown", "cudaErrorContained"})
    CHECK_MESSAGE(is_device_lost(name), name);
  for (const char* name : {"cudaErrorMemoryAllocation", "cudaErrorDevicesUnavailable", "cudaErrorOfTomorrow", ""})
    CHECK_MESSAGE(!is_device_lost(name), name);
}

TEST_CASE(
    "remedy_of_library_error: that of CUDA's error where the library quotes one, otherwise the library's own account") {
  CHECK(remedy_of_library_error("Cuda failure 2 'out of memory'").find("lower -e") != std::string_view::npos);
  CHECK(remedy_of_library_error("Cuda failure 719 'unspecified launch failure'").find("Xid") != std::string_view::npos);
  CHECK(remedy_of_library_error("Cuda failure 'uncorrectable ECC error encountered'").find("ECC") !=
        std::string_view::npos);
  CHECK(remedy_of_library_error("").find("NCCL_DEBUG=WARN") != std::string_view::npos);
}

TEST_CASE("out_of_memory_sentence: what was asked for, and what is free where that is known") {
  CHECK(
      out_of_memory_message("rank 2 on GPU 0000:0f:00", "a send buffer", std::size_t{8} << 30, std::size_t{1} << 30) ==
      "rank 2 on GPU 0000:0f:00: there is no room for a send buffer of 8 GiB, and 1 GiB is free; lower -e, or end what "
      "else "
      "uses the GPU (nvidia-smi)");
  CHECK(out_of_memory_message("rank 2", "a tile", 1024, std::nullopt) ==
        "rank 2: there is no room for a tile of 1 KiB; lower -e, or end what else uses the GPU (nvidia-smi)");
}
