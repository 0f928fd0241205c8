// Measures how fast a GPU fills and compares data with the engine's kernels, relative to setting and copying the same
// memory with CUDA. Uses one GPU and no NCCL.
//
//   device_data [MIB]      memory size [default: 4096]
//
// Prints one line per kernel: name, element bytes, buffer offset (bytes past a multiple of 16), GB/s of memory traffic
// (1e9 bytes per second; a copy reads and writes), and the ratio to setting or copying. Figures are medians of eleven
// runs by CUDA events. Exits with code 1 if a comparison misses wrong data or reports correct data.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>

#include "backends/nccl/cuda/cuda.hpp"
#include "backends/nccl/kernels/device_data.hpp"
#include "measure/statistics.hpp"
#include "verify/reduction_values.hpp"

namespace {

using namespace busbw;

constexpr int kRuns = 11;  // odd, so that the median is one of them
constexpr std::uint64_t kSeed = 7;
constexpr const char* kDeviceName = "GPU 0";  // for error messages
/// Padding past a buffer's end, for a buffer that begins past the start of its memory.
constexpr std::size_t kPaddingBytes = 16;

unsigned char* bytes_of(const DeviceMemory& memory) { return reinterpret_cast<unsigned char*>(memory.data()); }

/// Returns the speed in GB/s of a kernel that moves `moved_bytes`, by the median of eleven runs.
double measure_gbps(std::size_t moved_bytes, cudaStream_t stream, const std::function<cudaError_t()>& launch) {
  const CudaEvent begin(kDeviceName), end(kDeviceName);
  std::array<double, kRuns> times_s{};
  check_cuda(launch(), kDeviceName, "warming up");
  for (double& time_s : times_s) {
    float time_ms = 0;
    check_cuda(cudaEventRecord(begin.get(), stream), kDeviceName, "recording an event");
    check_cuda(launch(), kDeviceName, "launching");
    check_cuda(cudaEventRecord(end.get(), stream), kDeviceName, "recording an event");
    check_cuda(cudaEventSynchronize(end.get()), kDeviceName, "running");
    check_cuda(cudaEventElapsedTime(&time_ms, begin.get(), end.get()), kDeviceName, "taking a time");
    time_s = static_cast<double>(time_ms) / 1e3;
  }
  return static_cast<double>(moved_bytes) / 1e9 / summarize(times_s).median_s;
}

/// Result of a comparison on the device: its speed, and if the data differ.
struct ComparisonResult {
  double gbps;
  bool differs;
};

ComparisonResult compare(const DeviceRange& range, cudaStream_t stream) {
  unsigned long long count = 0;
  const DeviceMemory counter_memory(sizeof count, kDeviceName, "a counter");
  auto* const counter = reinterpret_cast<unsigned long long*>(counter_memory.data());
  check_cuda(cudaMemsetAsync(counter, 0, sizeof count, stream), kDeviceName, "clearing");
  const double speed = measure_gbps(range.elements * range.element_bytes, stream,
                                    [&] { return launch_compare(range, counter, stream); });
  check_cuda(cudaMemcpy(&count, counter, sizeof count, cudaMemcpyDeviceToHost), kDeviceName, "copying back");
  return {speed, count != 0};
}

/// Prints all figures. Returns false if a comparison misses wrong data or reports correct data.
bool measure_all(std::size_t bytes) {
  const CudaStream stream_owner(false, kDeviceName);
  const cudaStream_t stream = stream_owner.get();
  const DeviceMemory buffer(bytes + kPaddingBytes, kDeviceName, "a buffer"), copy_target(bytes, kDeviceName, "a copy");
  unsigned char* const memory = bytes_of(buffer);
  const double set_gbps = measure_gbps(bytes, stream, [&] { return cudaMemsetAsync(memory, 1, bytes, stream); });
  const double copy_gbps = measure_gbps(2 * bytes, stream, [&] {
    return cudaMemcpyAsync(copy_target.data(), memory, bytes, cudaMemcpyDeviceToDevice, stream);
  });
  fmt::print("set      1  0 {:7.0f} GB/s\ncopy     1  0 {:7.0f} GB/s\n", set_gbps, copy_gbps);
  for (const Dtype dtype : {Dtype::int8, Dtype::float16, Dtype::float32, Dtype::float64}) {
    const DataStream data = moved_stream(dtype, 0, kSeed);
    const auto element_bytes = static_cast<unsigned>(data.element_bytes);
    const DeviceMemory tile(data.tile->size() + kTilePaddingBytes, kDeviceName, "a tile");
    check_cuda(cudaMemcpy(tile.data(), data.tile->data(), data.tile->size(), cudaMemcpyHostToDevice), kDeviceName,
               "copying a tile");
    for (const unsigned offset : {0u, element_bytes}) {
      const DeviceRange range{memory + offset, bytes_of(tile), data.seed, 0, bytes / element_bytes, element_bytes};
      const auto print_row = [&](const char* name, double speed, double reference) {
        fmt::print("{:<8} {} {:2} {:7.0f} GB/s {:5.2f}\n", name, element_bytes, offset, speed, speed / reference);
      };
      print_row("fill", measure_gbps(bytes, stream, [&] { return launch_fill(range, stream); }), set_gbps);
      const ComparisonResult correct_data_result = compare(range, stream);
      print_row("compare", correct_data_result.gbps, copy_gbps);
      check_cuda(cudaMemsetAsync(range.memory + bytes / 2, 0, 1024, stream), kDeviceName, "making it wrong");
      if (!correct_data_result.differs && compare(range, stream).differs) continue;
      fmt::print(stderr, "device_data: comparing found {}\n",
                 correct_data_result.differs ? "right data wrong" : "nothing in wrong data");
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::size_t mib = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 4096;
    return measure_all(mib << 20) ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "device_data: {}\n", error.what());
    return 3;
  }
}
