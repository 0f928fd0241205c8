#include "backends/nccl/gpus/device_errors.hpp"

#include <doctest/doctest.h>

using namespace busbw;

TEST_CASE("device_error_message: names location, activity, CUDA's text and the remedy") {
  CHECK(
      device_error_message("rank 3 on GPU 0000:0f:00", "waiting for the GPU", "cudaErrorLaunchFailure",
                           "unspecified launch failure") ==
      "rank 3 on GPU 0000:0f:00: waiting for the GPU failed: unspecified launch failure (cudaErrorLaunchFailure), the "
      "GPU is lost to this job; find the GPU that failed by its Xid message (dmesg | grep Xid), which may be another "
      "GPU "
      "of the process, and check nvidia-smi");
  CHECK(device_error_message("rank 0 on GPU 0000:0f:00", "choosing the GPU", "cudaErrorDevicesUnavailable", "busy") ==
        "rank 0 on GPU 0000:0f:00: choosing the GPU failed: busy (cudaErrorDevicesUnavailable); another process holds "
        "it: check the processes and the compute mode in nvidia-smi");
}

TEST_CASE("device_error_message: an unknown error has a remedy as well") {
  CHECK(device_error_message("rank 1", "recording", "cudaErrorOfTomorrow", "new") ==
        "rank 1: recording failed: new (cudaErrorOfTomorrow); check nvidia-smi and the kernel log (dmesg | grep -i "
        "nvrm)");
}

TEST_CASE("is_device_lost: only errors that a CUDA context does not survive") {
  for (const char* name : {"cudaErrorECCUncorrectable", "cudaErrorLaunchFailure", "cudaErrorIllegalAddress",
                           "cudaErrorNvlinkUncorrectable", "cudaErrorUnknown", "cudaErrorContained"})
    CHECK_MESSAGE(is_device_lost(name), name);
  for (const char* name : {"cudaErrorMemoryAllocation", "cudaErrorDevicesUnavailable", "cudaErrorOfTomorrow", ""})
    CHECK_MESSAGE(!is_device_lost(name), name);
}

TEST_CASE("remedy_of_library_error: the remedy of a quoted CUDA error, otherwise a hint to NCCL_DEBUG") {
  CHECK(remedy_of_library_error("Cuda failure 2 'out of memory'").find("lower -e") != std::string_view::npos);
  CHECK(remedy_of_library_error("Cuda failure 719 'unspecified launch failure'").find("Xid") != std::string_view::npos);
  CHECK(remedy_of_library_error("Cuda failure 'uncorrectable ECC error encountered'").find("ECC") !=
        std::string_view::npos);
  CHECK(remedy_of_library_error("").find("NCCL_DEBUG=WARN") != std::string_view::npos);
}

TEST_CASE("out_of_memory_message: the requested bytes, and the free bytes if known") {
  CHECK(
      out_of_memory_message("rank 2 on GPU 0000:0f:00", "a send buffer", std::size_t{8} << 30, std::size_t{1} << 30) ==
      "rank 2 on GPU 0000:0f:00: too little GPU memory for a send buffer of 8 GiB (1 GiB is free); lower -e, or stop "
      "other "
      "programs on the GPU (nvidia-smi)");
  CHECK(out_of_memory_message("rank 2", "a tile", 1024, std::nullopt) ==
        "rank 2: too little GPU memory for a tile of 1 KiB; lower -e, or stop other programs on the GPU (nvidia-smi)");
}
