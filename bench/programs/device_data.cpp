// Measures how fast a GPU fills and compares data with the engine's kernels, beside setting and copying the same memory
// with CUDA. Uses one GPU and no NCCL.
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

constexpr int kRuns = 11;
constexpr std::uint64_t kSeed = 7;
constexpr const char* kWhere = "GPU 0";
/// Padding past a buffer's end, for a buffer that begins past the start of its memory.
constexpr std::size_t kPaddingBytes = 16;

unsigned char* bytes_of(const DeviceMemory& memory) { return reinterpret_cast<unsigned char*>(memory.data()); }

/// Returns GB/s for `moved` bytes, by the median of eleven runs.
double gbps(std::size_t moved, cudaStream_t stream, const std::function<cudaError_t()>& launch) {
  const CudaEvent begin(kWhere), end(kWhere);
  std::array<double, kRuns> times_s{};
  check_cuda(launch(), kWhere, "warming up");
  for (double& time_s : times_s) {
    float time_ms = 0;
    check_cuda(cudaEventRecord(begin.get(), stream), kWhere, "recording an event");
    check_cuda(launch(), kWhere, "launching");
    check_cuda(cudaEventRecord(end.get(), stream), kWhere, "recording an event");
    check_cuda(cudaEventSynchronize(end.get()), kWhere, "running");
    check_cuda(cudaEventElapsedTime(&time_ms, begin.get(), end.get()), kWhere, "taking a time");
    time_s = static_cast<double>(time_ms) / 1e3;
  }
  return static_cast<double>(moved) / 1e9 / summarize(times_s).median_s;
}

/// Result of a comparison on the device: its speed, and if the data differ.
struct ComparisonResult {
  double gbps;
  bool differs;
};

ComparisonResult compare(const DeviceRange& range, cudaStream_t stream) {
  unsigned long long count = 0;
  const DeviceMemory differing(sizeof count, kWhere, "a counter");
  auto* const counter = reinterpret_cast<unsigned long long*>(differing.data());
  check_cuda(cudaMemsetAsync(counter, 0, sizeof count, stream), kWhere, "clearing");
  const double speed =
      gbps(range.elements * range.element_bytes, stream, [&] { return launch_compare(range, counter, stream); });
  check_cuda(cudaMemcpy(&count, counter, sizeof count, cudaMemcpyDeviceToHost), kWhere, "copying back");
  return {speed, count != 0};
}

/// Returns false if the comparison misses wrong data or reports correct data.
bool measure(std::size_t bytes) {
  const CudaStream owner(false, kWhere);
  const cudaStream_t stream = owner.get();
  const DeviceMemory buffer(bytes + kPaddingBytes, kWhere, "a buffer"), other(bytes, kWhere, "a copy");
  unsigned char* const memory = bytes_of(buffer);
  const double set = gbps(bytes, stream, [&] { return cudaMemsetAsync(memory, 1, bytes, stream); });
  const double copy = gbps(2 * bytes, stream, [&] {
    return cudaMemcpyAsync(other.data(), memory, bytes, cudaMemcpyDeviceToDevice, stream);
  });
  fmt::print("set      1  0 {:7.0f} GB/s\ncopy     1  0 {:7.0f} GB/s\n", set, copy);
  for (const Dtype dtype : {Dtype::int8, Dtype::float16, Dtype::float32, Dtype::float64}) {
    const DataStream data = moved_stream(dtype, 0, kSeed);
    const auto element = static_cast<unsigned>(data.element_bytes);
    const DeviceMemory tile(data.tile->size() + kTilePaddingBytes, kWhere, "a tile");
    check_cuda(cudaMemcpy(tile.data(), data.tile->data(), data.tile->size(), cudaMemcpyHostToDevice), kWhere,
               "copying a tile");
    for (const unsigned shift : {0u, element}) {
      const DeviceRange range{memory + shift, bytes_of(tile), data.seed, 0, bytes / element, element};
      const auto print_row = [&](const char* name, double speed, double reference) {
        fmt::print("{:<8} {} {:2} {:7.0f} GB/s {:5.2f}\n", name, element, shift, speed, speed / reference);
      };
      print_row("fill", gbps(bytes, stream, [&] { return launch_fill(range, stream); }), set);
      const ComparisonResult right = compare(range, stream);
      print_row("compare", right.gbps, copy);
      check_cuda(cudaMemsetAsync(range.memory + bytes / 2, 0, 1024, stream), kWhere, "making it wrong");
      if (!right.differs && compare(range, stream).differs) continue;
      fmt::print(stderr, "device_data: comparing found {}\n",
                 right.differs ? "right data wrong" : "nothing in wrong data");
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return measure((argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 4096) << 20) ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "device_data: {}\n", error.what());
    return 3;
  }
}
