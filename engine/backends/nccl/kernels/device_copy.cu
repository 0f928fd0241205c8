#include <cstdint>

#include "backends/nccl/kernels/device_copy.hpp"

namespace busbw {
namespace {

constexpr unsigned kThreads = 512;
constexpr unsigned kMaxBlocks = 132 * 4;  // a few for each multiprocessor of any GPU

/// Copies whole words from the first word that is aligned in both places, and single bytes before and after them.
template <class Word>
__global__ void __launch_bounds__(kThreads) copy(unsigned char* to, const unsigned char* from, std::size_t bytes) {
  const std::size_t first = blockIdx.x * static_cast<std::size_t>(kThreads) + threadIdx.x;
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * kThreads;
  const std::size_t to_aligned = -reinterpret_cast<std::uintptr_t>(to) & (sizeof(Word) - 1);
  const std::size_t head = to_aligned < bytes ? to_aligned : bytes;
  const std::size_t words = (bytes - head) / sizeof(Word);
  const std::size_t tail = head + words * sizeof(Word);
  for (std::size_t i = first; i < head; i += stride) to[i] = from[i];
  for (std::size_t i = first; i < words; i += stride)
    reinterpret_cast<Word*>(to + head)[i] = reinterpret_cast<const Word*>(from + head)[i];
  for (std::size_t i = tail + first; i < bytes; i += stride) to[i] = from[i];
}

template <class Word>
cudaError_t launch(unsigned char* to, const unsigned char* from, std::size_t bytes, cudaStream_t stream) {
  const std::size_t needed = bytes / (kThreads * sizeof(Word)) + 1;
  const unsigned blocks = needed < kMaxBlocks ? static_cast<unsigned>(needed) : kMaxBlocks;
  copy<Word><<<blocks, kThreads, 0, stream>>>(to, from, bytes);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_copy(unsigned char* to, const unsigned char* from, std::size_t bytes, cudaStream_t stream) {
  const std::uintptr_t difference = reinterpret_cast<std::uintptr_t>(to) ^ reinterpret_cast<std::uintptr_t>(from);
  if (difference % sizeof(uint4) == 0) return launch<uint4>(to, from, bytes, stream);
  if (difference % sizeof(std::uint32_t) == 0) return launch<std::uint32_t>(to, from, bytes, stream);
  return launch<unsigned char>(to, from, bytes, stream);
}

}  // namespace busbw
