// Checks that a read of a line never returns a new tag with older data. The fast path reads data and tag with one read
// of a warp (docs/explanation/fast-path.md, "Assumptions about memory"), so this would be wrong data. In every step two
// ranks send each other one line per eight threads, with the transport of the real kernels, and each thread checks its
// cell.
//
//   fastpath_lines [STEPS [BUSY_BLOCKS]]      default: 2,000,000 steps and no busy blocks
//
// With two GPUs the lines cross NVLink. With one GPU they cross its L2 cache between multiprocessors. BUSY_BLOCKS
// blocks read and write other memory of each GPU at the same time. Prints one line: GPUs, lines taken, busy blocks,
// wrong cells. Exit code 1 if there are wrong cells, 3 if CUDA fails.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#include "fastpath/device/peer_transport.cuh"

namespace {

using namespace busbw::fastpath;

constexpr int kRanks = 2;
constexpr int kBlocks = 32;
constexpr int kThreads = 256;
constexpr int kCells = kBlocks * kThreads;
constexpr std::size_t kBusyWords = std::size_t{1} << 24;

void check(cudaError_t error, const char* activity) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "fastpath_lines: %s: %s\n", activity, cudaGetErrorString(error));
  std::exit(3);
}

/// Returns the cell that a thread of `rank` sends with a tag. It is unique to the thread, rank and tag.
__device__ Cell cell_of(int rank, int thread, std::uint64_t tag) {
  const std::uint64_t word = tag * kRanks * kCells + static_cast<std::uint64_t>(rank * kCells + thread);
  return {word, ~word};
}

__global__ void exchange_lines(const __grid_constant__ Lane lane, int rank, std::uint64_t steps,
                               unsigned long long* torn) {
  const PeerTransport<kRanks> fabric(lane, rank, kRanks, 1);
  const int peer = 1 - rank;
  const bool closes_line = threadIdx.x % kCellsOfLine == kCellsOfLine - 1;
  unsigned long long mine = 0;
  for (std::uint64_t tag = 1; tag <= steps; ++tag) {
    fabric.put(peer, 0, 0, tag, cell_of(rank, fabric.thread(), tag));
    Cell cells[kRanks];
    if (!fabric.take(0, 0, tag, cells)) break;
    const Cell expected = cell_of(peer, fabric.thread(), tag);
    mine += cells[peer].low != expected.low || cells[peer].high != (closes_line ? tag : expected.high);
  }
  if (mine) atomicAdd(torn, mine);
}

__global__ void keep_busy(volatile std::uint64_t* words, const volatile std::uint32_t* over) {
  std::uint64_t at = blockIdx.x * 977u + threadIdx.x;
  while (*over == 0)
    for (int i = 0; i < 4096; ++i, at += 1237 * kThreads) words[at % kBusyWords] = words[(at * 31) % kBusyWords] + 1;
}

struct Gpu {
  int device = 0;
  char* slots = nullptr;
  std::uint64_t* words = nullptr;
  cudaStream_t stream{};
  cudaStream_t busy_stream{};
};

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t steps = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 2'000'000;
  const int busy_blocks = argc > 2 ? std::atoi(argv[2]) : 0;
  int devices = 0;
  check(cudaGetDeviceCount(&devices), "counting GPUs");
  std::uint32_t* flags = nullptr;  // aborted, and over
  unsigned long long* torn = nullptr;
  check(cudaHostAlloc(&flags, 2 * sizeof *flags, cudaHostAllocPortable), "memory of the host");
  check(cudaHostAlloc(&torn, sizeof *torn, cudaHostAllocPortable), "memory of the host");
  flags[0] = flags[1] = 0;
  *torn = 0;

  Gpu gpus[kRanks];
  Lane lane;
  for (int rank = 0; rank < kRanks; ++rank) {
    Gpu& gpu = gpus[rank];
    gpu.device = devices > 1 ? rank : 0;
    check(cudaSetDevice(gpu.device), "choosing a GPU");
    if (devices > 1) check(cudaDeviceEnablePeerAccess(1 - rank, 0), "reaching the peer's memory");
    check(cudaMalloc(&gpu.slots, lane_bytes(kRanks, kCells)), "slots");
    check(cudaMemset(gpu.slots, 0, lane_bytes(kRanks, kCells)), "slots");
    check(cudaMalloc(&gpu.words, kBusyWords * sizeof(std::uint64_t)), "memory to be busy with");
    check(cudaStreamCreateWithFlags(&gpu.stream, cudaStreamNonBlocking), "a stream");
    check(cudaStreamCreateWithFlags(&gpu.busy_stream, cudaStreamNonBlocking), "a stream");
    lane.slots_of[rank] = gpu.slots;
    // Otherwise CUDA loads a kernel at its first launch and may wait for the GPU, which waits for the peer's kernel.
    cudaFuncAttributes loaded;
    check(cudaFuncGetAttributes(&loaded, exchange_lines), "loading a kernel");
    check(cudaFuncGetAttributes(&loaded, keep_busy), "loading a kernel");
    check(cudaDeviceSynchronize(), "setting up");
  }
  lane.cells = kCells;
  lane.aborted = flags;
  for (int rank = 0; rank < kRanks; ++rank) {
    check(cudaSetDevice(gpus[rank].device), "choosing a GPU");
    exchange_lines<<<kBlocks, kThreads, 0, gpus[rank].stream>>>(lane, rank, steps, torn);
    check(cudaGetLastError(), "launching");
    if (busy_blocks > 0) keep_busy<<<busy_blocks, kThreads, 0, gpus[rank].busy_stream>>>(gpus[rank].words, flags + 1);
    check(cudaGetLastError(), "launching");
  }
  for (const Gpu& gpu : gpus) {
    check(cudaSetDevice(gpu.device), "choosing a GPU");
    check(cudaStreamSynchronize(gpu.stream), "exchanging lines");
  }
  *static_cast<volatile std::uint32_t*>(flags + 1) = 1;
  for (const Gpu& gpu : gpus) {
    check(cudaSetDevice(gpu.device), "choosing a GPU");
    check(cudaDeviceSynchronize(), "ending");
  }
  const unsigned long long lines = steps * kRanks * kCells / kCellsOfLine;
  std::printf("%d GPUs, %llu lines, %d busy blocks: %llu cells that were not what the tag says\n", devices > 1 ? 2 : 1,
              lines, busy_blocks, *torn);
  return *torn ? 1 : 0;
}
