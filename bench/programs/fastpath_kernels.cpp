// Times the kernels of the fast path without NCCL: one process, one graph of many operations per GPU. It reports the
// device time of one operation and checks every element of a result. It is used to choose blocks and threads, and to
// find the shortest possible time. Elements are half. Buffers are in place, except for alltoall.
//
//   fastpath_kernels COLLECTIVE METHOD BYTES BLOCKS THREADS [GPUS [OPERATIONS]]
//
// BYTES is the size as in nccl-tests. Prints one line: collective method bytes blocks threads batch steps us wrong.
// `batch` and `steps` are those of the grid (fastpath/schedule/grid.hpp), `us` is microseconds per operation, and
// `wrong` is the number of wrong elements.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include "fastpath/choice/table.hpp"
#include "fastpath/device/launch.hpp"

namespace {

using namespace busbw::fastpath;

/// Prints the error and exits if a CUDA call has failed.
void check(cudaError_t error, const char* activity) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", activity, cudaGetErrorString(error));
  std::exit(3);
}

/// One rank's GPU with its scratch memory, buffer and graph.
struct Gpu {
  char* scratch = nullptr;
  std::uint64_t* tags = nullptr;
  std::uint32_t* aborted = nullptr;
  __half* buffer = nullptr;
  cudaStream_t stream{};
  cudaGraphExec_t graph{};
  cudaEvent_t begin{}, end{};
  Lane lane;
};

/// The measured operation.
struct Benchmark {
  Collective collective{};
  MethodConfig config;
  std::size_t part_bytes = 0;            ///< of one rank, or the whole buffer if the collective has no parts
  std::size_t whole_bytes = 0;           ///< of the larger of a rank's two buffers
  std::size_t alltoall_output_offset = 0;  ///< of alltoall's output in a GPU's buffer, in bytes
  int max_cells = 0;                     ///< slots for cells of one peer
};

std::size_t index_of(int rank) { return static_cast<std::size_t>(rank); }

// Small integers: the sum of eight values is exact in half.
float value_of(int rank, std::size_t i) { return static_cast<float>((i * 7 + index_of(rank) * 3) % 11) - 5; }

bool has_part_per_rank(Collective collective) {
  return facts_of(collective).sends_shares || facts_of(collective).receives_shares;
}

/// Allocates the memory of a rank's GPU and lets it access the other GPUs.
Gpu allocate_gpu(const Benchmark& benchmark, int rank, int ranks) {
  Gpu gpu;
  check(cudaSetDevice(rank), "device");
  for (int peer = 0; peer < ranks; ++peer)
    if (peer != rank) check(cudaDeviceEnablePeerAccess(peer, 0), "peer access");
  check(cudaMalloc(&gpu.scratch, lane_bytes(ranks, benchmark.max_cells)), "scratch");
  check(cudaMemset(gpu.scratch, 0, lane_bytes(ranks, benchmark.max_cells)), "scratch");
  check(cudaMalloc(&gpu.tags, kMaxBlocks * sizeof(std::uint64_t)), "tags");
  check(cudaMemset(gpu.tags, 0, kMaxBlocks * sizeof(std::uint64_t)), "tags");
  check(cudaHostAlloc(&gpu.aborted, 4, cudaHostAllocMapped), "flag");
  *gpu.aborted = 0;
  check(cudaMalloc(&gpu.buffer, 2 * benchmark.alltoall_output_offset), "buffer");
  check(cudaStreamCreateWithFlags(&gpu.stream, cudaStreamNonBlocking), "stream");
  check(cudaEventCreate(&gpu.begin), "event");
  check(cudaEventCreate(&gpu.end), "event");
  return gpu;
}

/// Fills in the lane of a rank, from the scratch memory of all GPUs.
void set_lane(std::vector<Gpu>& gpus, const Benchmark& benchmark, int rank) {
  Gpu& gpu = gpus[index_of(rank)];
  for (std::size_t peer = 0; peer < gpus.size(); ++peer) gpu.lane.slots_of[peer] = gpus[peer].scratch;
  gpu.lane.tags = gpu.tags;
  gpu.lane.cells = benchmark.max_cells;
  gpu.lane.aborted = gpu.aborted;
  int major = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, rank), "asking for the compute capability");
  gpu.lane.starts_early = major >= 9;
}

Operation make_rank_operation(const std::vector<Gpu>& gpus, const Benchmark& benchmark, int rank) {
  const int ranks = static_cast<int>(gpus.size());
  CollectiveCall call;
  call.collective = benchmark.collective;
  call.element = ElementType::float16;
  call.bytes = benchmark.part_bytes;
  char* const buffer = reinterpret_cast<char*>(gpus[index_of(rank)].buffer);
  char* const own_part = buffer + index_of(rank) * benchmark.part_bytes;
  call.send = benchmark.collective == Collective::all_gather ? own_part : buffer;
  call.receive = benchmark.collective == Collective::reduce_scatter ? own_part : buffer;
  if (benchmark.collective == Collective::alltoall) call.receive = buffer + benchmark.alltoall_output_offset;
  if (benchmark.config.method != Method::direct)
    return make_operation(call, benchmark.config, rank, ranks, benchmark.max_cells);
  PeerBuffers peers;
  for (std::size_t peer = 0; peer < gpus.size(); ++peer)
    peers.send[peer] = peers.receive[peer] = reinterpret_cast<char*>(gpus[peer].buffer);
  return make_direct_operation(call, benchmark.config, rank, ranks, benchmark.max_cells, peers);
}

void fill_buffers(const std::vector<Gpu>& gpus, const Benchmark& benchmark) {
  for (int rank = 0; rank < static_cast<int>(gpus.size()); ++rank) {
    std::vector<__half> data(benchmark.whole_bytes / sizeof(__half));
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = __float2half(value_of(rank, i));
    check(cudaSetDevice(rank), "device");
    check(cudaMemcpy(gpus[index_of(rank)].buffer, data.data(), benchmark.whole_bytes, cudaMemcpyHostToDevice),
          "filling");
  }
}

void wait_for_all(const std::vector<Gpu>& gpus) {
  for (int rank = 0; rank < static_cast<int>(gpus.size()); ++rank) {
    check(cudaSetDevice(rank), "device");
    check(cudaStreamSynchronize(gpus[index_of(rank)].stream), "running");
  }
}

void run_once(const std::vector<Gpu>& gpus, const std::vector<Operation>& operations) {
  for (int rank = 0; rank < static_cast<int>(gpus.size()); ++rank) {
    const Gpu& gpu = gpus[index_of(rank)];
    check(cudaSetDevice(rank), "device");
    check(launch(operations[index_of(rank)], gpu.lane, gpu.stream), "launch");
  }
  wait_for_all(gpus);
}

void run_graphs(const std::vector<Gpu>& gpus) {
  for (int rank = 0; rank < static_cast<int>(gpus.size()); ++rank) {
    const Gpu& gpu = gpus[index_of(rank)];
    check(cudaSetDevice(rank), "device");
    check(cudaEventRecord(gpu.begin, gpu.stream), "event");
    check(cudaGraphLaunch(gpu.graph, gpu.stream), "graph");
    check(cudaEventRecord(gpu.end, gpu.stream), "event");
  }
  wait_for_all(gpus);
}

/// Returns the expected value of an element of a rank's output. Nothing for elements that the operation does not write.
std::optional<float> expected_value(const Benchmark& benchmark, int rank, int ranks, std::size_t element) {
  const std::size_t part_elements = benchmark.part_bytes / sizeof(__half);
  const std::size_t part = element / part_elements;
  switch (benchmark.collective) {
    case Collective::all_gather: return value_of(static_cast<int>(part), element);
    case Collective::alltoall:
      return value_of(static_cast<int>(part), index_of(rank) * part_elements + element % part_elements);
    case Collective::broadcast: return value_of(0, element);
    default: break;
  }
  if (benchmark.collective == Collective::reduce_scatter && part != index_of(rank)) return std::nullopt;
  float sum = 0;
  for (int peer = 0; peer < ranks; ++peer) sum += value_of(peer, element);
  return sum;
}

/// Returns the number of wrong elements on all ranks.
std::size_t count_wrong(const std::vector<Gpu>& gpus, const Benchmark& benchmark) {
  const int ranks = static_cast<int>(gpus.size());
  std::size_t wrong = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<__half> data(benchmark.whole_bytes / sizeof(__half));
    check(cudaSetDevice(rank), "device");
    const char* output = reinterpret_cast<char*>(gpus[index_of(rank)].buffer);
    if (benchmark.collective == Collective::alltoall) output += benchmark.alltoall_output_offset;
    check(cudaMemcpy(data.data(), output, benchmark.whole_bytes, cudaMemcpyDeviceToHost), "reading");
    for (std::size_t i = 0; i < data.size(); ++i) {
      const auto expected = expected_value(benchmark, rank, ranks, i);
      if (expected && __half2float(data[i]) != *expected) ++wrong;
    }
  }
  return wrong;
}

void capture_graph(Gpu& gpu, const Operation& operation, int rank, int operations) {
  check(cudaSetDevice(rank), "device");
  cudaGraph_t graph;
  check(cudaStreamBeginCapture(gpu.stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < operations; ++i) check(launch(operation, gpu.lane, gpu.stream), "launch");
  check(cudaStreamEndCapture(gpu.stream, &graph), "capture");
  check(cudaGraphInstantiate(&gpu.graph, graph, 0), "instantiate");
}

/// Returns the shortest time of a graph over three runs, after one warm-up run.
float min_graph_time_ms(const std::vector<Gpu>& gpus) {
  float min_time_ms = 1e30f;
  constexpr int kTimedRuns = 3;
  for (int run = 0; run <= kTimedRuns; ++run) {
    run_graphs(gpus);
    // The GPU that was launched last did not wait for other launches.
    float time_ms = 0;
    check(cudaEventElapsedTime(&time_ms, gpus.back().begin, gpus.back().end), "time");
    const bool is_warm_up = run == 0;
    if (!is_warm_up) min_time_ms = std::min(min_time_ms, time_ms);
  }
  return min_time_ms;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  const auto collective = collective_named(argv[1]);
  const auto method = method_named(argv[2]);
  if (!collective || !method) return 2;
  const std::size_t bytes = std::strtoull(argv[3], nullptr, 10);
  int ranks = 0;
  check(cudaGetDeviceCount(&ranks), "counting GPUs");
  if (argc > 6) ranks = std::atoi(argv[6]);
  const int operation_count = argc > 7 ? std::atoi(argv[7]) : 200;

  Benchmark benchmark;
  benchmark.collective = *collective;
  benchmark.config = {*method, std::atoi(argv[4]), std::atoi(argv[5])};
  const std::size_t parts = has_part_per_rank(*collective) ? index_of(ranks) : 1;
  benchmark.part_bytes = bytes / parts;
  benchmark.whole_bytes = benchmark.part_bytes * parts;
  benchmark.alltoall_output_offset = bytes + 4096;
  // As in the library: 2^18 cells for all ranks together, with their number rounded up to a power of two.
  const auto rounded_ranks = static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks)));
  benchmark.max_cells = (1 << 18) / rounded_ranks;

  std::vector<Gpu> gpus;
  for (int rank = 0; rank < ranks; ++rank) gpus.push_back(allocate_gpu(benchmark, rank, ranks));
  std::vector<Operation> operations;
  for (int rank = 0; rank < ranks; ++rank) {
    set_lane(gpus, benchmark, rank);
    operations.push_back(make_rank_operation(gpus, benchmark, rank));
  }
  fill_buffers(gpus, benchmark);
  run_once(gpus, operations);
  const std::size_t wrong = count_wrong(gpus, benchmark);
  for (int rank = 0; rank < ranks; ++rank)
    capture_graph(gpus[index_of(rank)], operations[index_of(rank)], rank, operation_count);
  const double time_us = static_cast<double>(min_graph_time_ms(gpus)) * 1000 / operation_count;
  const Grid& grid = operations[0].grid;
  std::printf("%s %s %zu %d %d %d %d %.3f %zu\n", argv[1], argv[2], benchmark.whole_bytes, grid.blocks, grid.threads,
              grid.batch, grid.steps, time_us, wrong);
  return wrong ? 1 : 0;
}
