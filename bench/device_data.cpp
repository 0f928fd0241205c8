// How fast a GPU makes data and checks them: filling and comparing by the engine's kernels, beside what the same memory does
// when CUDA sets and copies it. One GPU, no NCCL.
//
//   device_data [MIB]      of memory, 4096 without it
//
// A line for each: name, element bytes, where the buffer begins (bytes past a multiple of 16), GB/s of memory traffic (1e9
// bytes per second; a copy reads and writes), over that of setting or reading. Medians of eleven runs by CUDA events. A
// comparison of wrong data must find them, or the program ends with code 1.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "backends/nccl/device_data.hpp"
#include "verify/values.hpp"

namespace {

using namespace busbw;

constexpr int kRuns = 11;
constexpr std::uint64_t kSeed = 7;

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "device_data: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(3);
}

template <class T>
T* allocated(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "cudaMalloc");
  return static_cast<T*>(memory);
}

/// Seconds, the median.
double median_s(cudaStream_t stream, const std::function<cudaError_t()>& launch) {
  cudaEvent_t begin{}, end{};
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  std::vector<float> times_ms(kRuns);
  check(launch(), "warming up");
  for (float& time_ms : times_ms) {
    check(cudaEventRecord(begin, stream), "cudaEventRecord");
    check(launch(), "launching");
    check(cudaEventRecord(end, stream), "cudaEventRecord");
    check(cudaEventSynchronize(end), "running");
    check(cudaEventElapsedTime(&time_ms, begin, end), "cudaEventElapsedTime");
  }
  std::nth_element(times_ms.begin(), times_ms.begin() + kRuns / 2, times_ms.end());
  return static_cast<double>(times_ms[kRuns / 2]) / 1e3;
}

void say(const char* name, unsigned element_bytes, unsigned shift, double gbps, double peer_gbps) {
  std::printf("%-8s %u %2u %7.0f GB/s %5.2f\n", name, element_bytes, shift, gbps, gbps / peer_gbps);
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t bytes = (argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 4096) << 20;
  cudaStream_t stream{};
  check(cudaStreamCreate(&stream), "cudaStreamCreate");
  auto* const memory = allocated<unsigned char>(bytes + 16);
  auto* const other = allocated<unsigned char>(bytes);
  auto* const differing = allocated<unsigned long long>(sizeof(unsigned long long));
  const auto gbps = [](std::size_t moved, double seconds) { return static_cast<double>(moved) / 1e9 / seconds; };

  const double set = gbps(bytes, median_s(stream, [&] { return cudaMemsetAsync(memory, 1, bytes, stream); }));
  const double copy =
      gbps(2 * bytes,
           median_s(stream, [&] { return cudaMemcpyAsync(other, memory, bytes, cudaMemcpyDeviceToDevice, stream); }));
  std::printf("%-8s %u %2u %7.0f GB/s\n%-8s %u %2u %7.0f GB/s\n", "set", 1u, 0u, set, "copy", 1u, 0u, copy);

  for (const Dtype dtype : {Dtype::int8, Dtype::float16, Dtype::float32, Dtype::float64}) {
    const Stream data = moved_stream(dtype, 0, kSeed);
    const auto element = static_cast<unsigned>(data.element_bytes);
    auto* const tile = allocated<unsigned char>(data.tile->size() + kTilePaddingBytes);
    check(cudaMemcpy(tile, data.tile->data(), data.tile->size(), cudaMemcpyHostToDevice), "copying a tile");
    for (const unsigned shift : {0u, element}) {
      const DeviceRange range{memory + shift, tile, data.seed, 0, bytes / element, element};
      say("fill", element, shift, gbps(bytes, median_s(stream, [&] { return launch_fill(range, stream); })), set);
      unsigned long long found = 0;
      const auto compared = [&] {
        check(cudaMemset(differing, 0, sizeof found), "clearing");
        const double seconds = median_s(stream, [&] { return launch_compare(range, differing, stream); });
        check(cudaMemcpy(&found, differing, sizeof found, cudaMemcpyDeviceToHost), "copying back");
        return seconds;
      };
      say("compare", element, shift, gbps(bytes, compared()), copy);
      const bool was_right = found == 0;
      check(cudaMemset(memory + shift + bytes / 2, 0, 1024), "making it wrong");
      compared();
      if (was_right && found > 0) continue;
      std::fprintf(stderr, "device_data: comparing found %s\n",
                   was_right ? "nothing in wrong data" : "right data wrong");
      return 1;
    }
    check(cudaFree(tile), "cudaFree");
  }
}
