// Copy kernel in three word sizes. The widest word that both addresses can be aligned to is used.
#include <cstdint>

#include "backends/nccl/kernels/device_copy.hpp"

namespace busbw {
namespace {

constexpr unsigned kThreads = 512;
constexpr unsigned kMaxBlocks = 132 * 4;  // 4 for each of an H100's 132 multiprocessors

/// Copies aligned words, and single bytes before and after them. `to` and `from` are equal modulo sizeof(Word).
template <class Word>
__global__ void __launch_bounds__(kThreads) copy(unsigned char* to, const unsigned char* from, std::size_t bytes) {
  const std::size_t thread = blockIdx.x * static_cast<std::size_t>(kThreads) + threadIdx.x;
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * kThreads;
  // 12 for address 0x1004 and words of 16 bytes.
  const std::size_t bytes_to_alignment = -reinterpret_cast<std::uintptr_t>(to) & (sizeof(Word) - 1);
  const std::size_t head = bytes_to_alignment < bytes ? bytes_to_alignment : bytes;
  const std::size_t words = (bytes - head) / sizeof(Word);
  const std::size_t tail_start = head + words * sizeof(Word);
  for (std::size_t i = thread; i < head; i += stride) to[i] = from[i];
  for (std::size_t i = thread; i < words; i += stride)
    reinterpret_cast<Word*>(to + head)[i] = reinterpret_cast<const Word*>(from + head)[i];
  for (std::size_t i = tail_start + thread; i < bytes; i += stride) to[i] = from[i];
}

template <class Word>
cudaError_t launch(unsigned char* to, const unsigned char* from, std::size_t bytes, cudaStream_t stream) {
  const std::size_t needed_blocks = bytes / (kThreads * sizeof(Word)) + 1;
  const unsigned blocks = needed_blocks < kMaxBlocks ? static_cast<unsigned>(needed_blocks) : kMaxBlocks;
  copy<Word><<<blocks, kThreads, 0, stream>>>(to, from, bytes);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_copy(unsigned char* to, const unsigned char* from, std::size_t bytes, cudaStream_t stream) {
  // Bits in which the addresses differ. Both can be aligned to words if the bits below the word size are equal.
  const std::uintptr_t differing_bits = reinterpret_cast<std::uintptr_t>(to) ^ reinterpret_cast<std::uintptr_t>(from);
  if (differing_bits % sizeof(uint4) == 0) return launch<uint4>(to, from, bytes, stream);
  if (differing_bits % sizeof(std::uint32_t) == 0) return launch<std::uint32_t>(to, from, bytes, stream);
  return launch<unsigned char>(to, from, bytes, stream);
}

}  // namespace busbw
