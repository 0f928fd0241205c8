// Times the kernels of the fast path without NCCL: one process, one graph of many operations per GPU. It reports the
// device time of one operation and checks every element of a result. It is used to choose blocks and threads, and to
// find the shortest possible time. Elements are half. Buffers are in place, except for alltoall.
//
//   fastpath_kernels COLLECTIVE METHOD BYTES BLOCKS THREADS [GPUS [OPERATIONS]]
//
// BYTES is the size as in nccl-tests. Prints one line: collective method bytes blocks threads batch steps us wrong.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "fastpath/choice/table.hpp"
#include "fastpath/device/launch.hpp"

namespace {

using namespace busbw::fastpath;

void check(cudaError_t error, const char* activity) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", activity, cudaGetErrorString(error));
  std::exit(3);
}

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

// Small integers: the sum of eight values is exact in half.
float value_of(int rank, std::size_t i) {
  return static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 3) % 11) - 5;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  const auto collective = collective_named(argv[1]);
  const auto method = method_named(argv[2]);
  if (!collective || !method) return 2;
  const std::size_t bytes = std::strtoull(argv[3], nullptr, 10);
  const MethodConfig choice{*method, std::atoi(argv[4]), std::atoi(argv[5])};
  int ranks = 0;
  check(cudaGetDeviceCount(&ranks), "counting GPUs");
  if (argc > 6) ranks = std::atoi(argv[6]);
  const int operations = argc > 7 ? std::atoi(argv[7]) : 200;

  std::vector<Gpu> gpus(static_cast<std::size_t>(ranks));
  const std::size_t room = bytes + 4096;
  const int slots = (1 << 18) / (ranks <= 2 ? 2 : ranks <= 4 ? 4 : 8);
  for (int r = 0; r < ranks; ++r) {
    Gpu& g = gpus[static_cast<std::size_t>(r)];
    check(cudaSetDevice(r), "device");
    for (int p = 0; p < ranks; ++p)
      if (p != r) check(cudaDeviceEnablePeerAccess(p, 0), "peer access");
    check(cudaMalloc(&g.scratch, lane_bytes(ranks, slots)), "scratch");
    check(cudaMemset(g.scratch, 0, lane_bytes(ranks, slots)), "scratch");
    check(cudaMalloc(&g.tags, kMaxBlocks * sizeof(std::uint64_t)), "tags");
    check(cudaMemset(g.tags, 0, kMaxBlocks * sizeof(std::uint64_t)), "tags");
    check(cudaHostAlloc(&g.aborted, 4, cudaHostAllocMapped), "flag");
    *g.aborted = 0;
    check(cudaMalloc(&g.buffer, 2 * room), "buffer");
    check(cudaStreamCreateWithFlags(&g.stream, cudaStreamNonBlocking), "stream");
    check(cudaEventCreate(&g.begin), "event");
    check(cudaEventCreate(&g.end), "event");
  }
  const bool parted = *collective == Collective::all_gather || *collective == Collective::reduce_scatter ||
                      *collective == Collective::alltoall;
  const std::size_t part = parted ? bytes / static_cast<std::size_t>(ranks) : bytes;
  const std::size_t whole = part * (parted ? static_cast<std::size_t>(ranks) : 1);
  std::vector<Operation> of_rank;
  for (int r = 0; r < ranks; ++r) {
    Gpu& g = gpus[static_cast<std::size_t>(r)];
    for (int p = 0; p < ranks; ++p) g.lane.slots_of[p] = gpus[static_cast<std::size_t>(p)].scratch;
    g.lane.tags = g.tags;
    g.lane.cells = slots;
    g.lane.aborted = g.aborted;
    int major = 0;
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, r), "asking for the compute capability");
    g.lane.starts_early = major >= 9;
    CollectiveCall call;
    call.collective = *collective;
    call.element = ElementType::float16;
    call.bytes = part;
    char* base = reinterpret_cast<char*>(g.buffer);
    call.send = *collective == Collective::all_gather ? base + static_cast<std::size_t>(r) * part : base;
    call.receive = *collective == Collective::reduce_scatter ? base + static_cast<std::size_t>(r) * part : base;
    if (*collective == Collective::alltoall) call.receive = base + room;
    if (*method == Method::direct) {
      PeerBuffers reach;
      for (int p = 0; p < ranks; ++p)
        reach.send[p] = reach.receive[p] = reinterpret_cast<char*>(gpus[static_cast<std::size_t>(p)].buffer);
      of_rank.push_back(make_direct_operation(call, choice, r, ranks, slots, reach));
    } else {
      of_rank.push_back(make_operation(call, choice, r, ranks, slots));
    }
  }
  const auto fill = [&] {
    for (int r = 0; r < ranks; ++r) {
      std::vector<__half> data(whole / 2);
      for (std::size_t i = 0; i < data.size(); ++i) data[i] = __float2half(value_of(r, i));
      check(cudaSetDevice(r), "device");
      check(cudaMemcpy(gpus[static_cast<std::size_t>(r)].buffer, data.data(), whole, cudaMemcpyHostToDevice),
            "filling");
    }
  };
  const auto launch_all = [&](bool graph) {
    for (int r = 0; r < ranks; ++r) {
      Gpu& g = gpus[static_cast<std::size_t>(r)];
      check(cudaSetDevice(r), "device");
      if (graph) {
        check(cudaEventRecord(g.begin, g.stream), "event");
        check(cudaGraphLaunch(g.graph, g.stream), "graph");
        check(cudaEventRecord(g.end, g.stream), "event");
      } else {
        check(launch(of_rank[static_cast<std::size_t>(r)], g.lane, g.stream), "launch");
      }
    }
    for (int r = 0; r < ranks; ++r) {
      check(cudaSetDevice(r), "device");
      check(cudaStreamSynchronize(gpus[static_cast<std::size_t>(r)].stream), "running");
    }
  };
  fill();
  launch_all(false);
  std::size_t wrong = 0;
  for (int r = 0; r < ranks; ++r) {
    std::vector<__half> data(whole / 2);
    check(cudaSetDevice(r), "device");
    const char* base = reinterpret_cast<char*>(gpus[static_cast<std::size_t>(r)].buffer);
    check(
        cudaMemcpy(data.data(), base + (*collective == Collective::alltoall ? room : 0), whole, cudaMemcpyDeviceToHost),
        "reading");
    const std::size_t n = part / 2;
    for (std::size_t i = 0; i < data.size(); ++i) {
      float sum = 0;
      for (int p = 0; p < ranks; ++p) sum += value_of(p, i);
      float expected = sum;
      switch (*collective) {
        case Collective::all_reduce: break;
        case Collective::reduce_scatter:
          if (i / n != static_cast<std::size_t>(r)) continue;
          break;
        case Collective::all_gather: expected = value_of(static_cast<int>(i / n), i); break;
        case Collective::alltoall:
          expected = value_of(static_cast<int>(i / n), static_cast<std::size_t>(r) * n + i % n);
          break;
        case Collective::broadcast: expected = value_of(0, i); break;
      }
      if (__half2float(data[i]) != expected) ++wrong;
    }
  }
  for (int r = 0; r < ranks; ++r) {
    Gpu& g = gpus[static_cast<std::size_t>(r)];
    check(cudaSetDevice(r), "device");
    cudaGraph_t graph;
    check(cudaStreamBeginCapture(g.stream, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < operations; ++i)
      check(launch(of_rank[static_cast<std::size_t>(r)], g.lane, g.stream), "launch");
    check(cudaStreamEndCapture(g.stream, &graph), "capture");
    check(cudaGraphInstantiate(&g.graph, graph, 0), "instantiate");
  }
  float least = 1e30f;
  for (int i = 0; i < 4; ++i) {
    launch_all(true);
    float most = 0;
    for (int r = 0; r < ranks; ++r) {
      float ms = 0;
      check(cudaEventElapsedTime(&ms, gpus[static_cast<std::size_t>(r)].begin, gpus[static_cast<std::size_t>(r)].end),
            "time");
      if (r == ranks - 1) most = ms;  // the GPU launched last did not wait for the launches of the others
    }
    if (i > 0 && most < least) least = most;
  }
  const Grid& grid = of_rank[0].grid;
  std::printf("%s %s %zu %d %d %d %d %.3f %zu\n", argv[1], argv[2], whole, grid.blocks, grid.threads, grid.batch,
              grid.steps, static_cast<double>(least) * 1000 / operations, wrong);
  return wrong ? 1 : 0;
}
