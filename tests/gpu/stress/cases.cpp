// Cases in which a library in front of NCCL could behave differently from NCCL. Each prints a line and returns the exit
// code of run_team().
#include "cases.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <thread>

namespace stress {
namespace {

using std::chrono::milliseconds;
constexpr std::size_t kMib = 1 << 20;

cudaStream_t new_stream() {
  cudaStream_t stream{};
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  return stream;
}

/// Floats on the current GPU.
class Floats {
 public:
  explicit Floats(std::size_t count) : count_(count) { check(cudaMalloc(&data_, count * sizeof(float)), "cudaMalloc"); }
  ~Floats() { cudaFree(data_); }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  float* data() const { return data_; }
  std::size_t count() const { return count_; }
  void set(float value) const {
    const std::vector<float> all(count_, value);
    check(cudaMemcpy(data_, all.data(), count_ * sizeof(float), cudaMemcpyHostToDevice), "copying there");
    // The copy may return before the data have arrived, and non-blocking streams do not wait for it.
    check(cudaStreamSynchronize(cudaStreamLegacy), "copying there");
  }
  /// Returns the number of elements that differ from `value`.
  std::size_t others_than(float value) const {
    std::vector<float> all(count_);
    check(cudaMemcpy(all.data(), data_, count_ * sizeof(float), cudaMemcpyDeviceToHost), "copying back");
    std::size_t others = 0;
    for (const float one : all) others += one != value;
    return others;
  }

 private:
  float* data_ = nullptr;
  std::size_t count_;
};

void expect(const Team& team, const Floats& result, float value, const char* what) {
  if (const std::size_t others = result.others_than(value); others != 0)
    wrong(team.shared, "%s, rank %d: %zu of %zu elements are not %g", what, team.mine[0].rank, others, result.count(),
          static_cast<double>(value));
}

/// Queues an in-place sum of the first elements of all ranks.
void all_reduce(const Floats& data, std::size_t count, ncclComm_t communicator, cudaStream_t stream) {
  check(ncclAllReduce(data.data(), data.data(), count, ncclFloat32, ncclSum, communicator, stream), "ncclAllReduce");
}

/// Returns a graph of the work that `queue` queues on a stream.
class Recorded {
 public:
  template <class Queue>
  Recorded(cudaStream_t stream, Queue queue) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    queue();
    check(cudaStreamEndCapture(stream, &graph_), "cudaStreamEndCapture");
    check(cudaGraphInstantiate(&instance_, graph_, 0), "cudaGraphInstantiate");
  }
  ~Recorded() {
    check(cudaGraphExecDestroy(instance_), "cudaGraphExecDestroy");
    check(cudaGraphDestroy(graph_), "cudaGraphDestroy");
  }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;
  void launch(cudaStream_t stream) const { check(cudaGraphLaunch(instance_, stream), "cudaGraphLaunch"); }

 private:
  cudaGraph_t graph_{};
  cudaGraphExec_t instance_{};
};

/// Checks `result`, or the final result if the communicator is non-blocking.
void settle(ncclComm_t communicator, ncclResult_t result, const char* what) {
  while (result == ncclInProgress) check(ncclCommGetAsyncError(communicator, &result), "ncclCommGetAsyncError");
  check(result, what);
}

/// Runs an all-reduce of ones and checks its result.
void try_it(Team& team, ncclComm_t communicator, int ranks, std::size_t count, const char* what) {
  const Floats data(count);
  data.set(1);
  const cudaStream_t stream = new_stream();
  all_reduce(data, count, communicator, stream);
  check(cudaStreamSynchronize(stream), what);
  check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  expect(team, data, static_cast<float>(ranks), what);
}

/// Concurrent communicators on separate streams. Every rank begins with another communicator.
void crossed(Team& team, const CaseSettings& settings) {
  constexpr int kCalls = 200;
  const auto n = static_cast<std::size_t>(settings.communicators);
  std::vector<ncclComm_t> communicators;
  std::vector<cudaStream_t> streams;
  for (std::size_t c = 0; c < n; ++c) {
    communicators.push_back(team.new_communicators()[0]);
    streams.push_back(new_stream());
  }
  const int rank = team.mine[0].rank;
  for (const std::size_t count : {std::size_t{256}, std::size_t{16} << 10, std::size_t{512} << 10}) {
    std::vector<std::unique_ptr<Floats>> data;
    for (std::size_t c = 0; c < n; ++c) {
      data.push_back(std::make_unique<Floats>(2 * count));
      data.back()->set(1);
    }
    team.barrier();
    for (std::size_t k = 0; k < n; ++k) {
      const std::size_t c = (k + static_cast<std::size_t>(rank)) % n;
      for (int i = 0; i < kCalls; ++i) {
        team.doing("crossed: %zu floats, call %d of communicator %zu", count, i, c);
        check(ncclAllReduce(data[c]->data(), data[c]->data() + count, count, ncclFloat32, ncclSum, communicators[c],
                            streams[c]),
              "ncclAllReduce");
      }
      std::this_thread::sleep_for(milliseconds(50));
    }
    for (std::size_t c = 0; c < n; ++c) {
      team.doing("crossed: %zu floats, waiting for communicator %zu", count, c);
      check(cudaStreamSynchronize(streams[c]), "running");
      std::vector<float> result(count);
      check(cudaMemcpy(result.data(), data[c]->data() + count, count * 4, cudaMemcpyDeviceToHost), "copying back");
      for (const float one : result)
        if (one != static_cast<float>(team.ranks)) {
          wrong(team.shared, "crossed: rank %d, communicator %zu, %zu floats", rank, c, count);
          break;
        }
    }
  }
  for (const ncclComm_t one : communicators) check(ncclCommDestroy(one), "ncclCommDestroy");
}

/// The last rank never starts its call. The others abort after a second, and a new communicator works.
void abort(Team& team, const CaseSettings&) {
  const int rank = team.mine[0].rank;
  const bool is_missing = rank == team.ranks - 1;
  for (const char* how : {"alone", "in a graph", "several"}) {
    const ncclComm_t communicator = team.new_communicators()[0];
    try_it(team, communicator, team.ranks, 1000, "before an abort");
    const cudaStream_t stream = new_stream();
    const Floats data(32 << 10);
    data.set(1);
    std::optional<Recorded> graph;
    if (how[0] == 'i')  // all ranks capture, because NCCL may communicate during a capture
      graph.emplace(stream, [&] {
        for (int i = 0; i < 5; ++i) all_reduce(data, 1000, communicator, stream);
      });
    team.barrier();
    if (!is_missing) {
      team.doing("abort, %s: queueing", how);
      if (graph)
        graph->launch(stream);
      else
        for (int i = 0; i < (how[0] == 's' ? 50 : 1); ++i)
          all_reduce(data, i % 2 ? data.count() : 1000, communicator, stream);
      std::this_thread::sleep_for(milliseconds(1000));
      if (cudaStreamQuery(stream) != cudaErrorNotReady)
        wrong(team.shared, "abort, %s: rank %d did not wait for a missing rank", how, rank);
    } else {
      std::this_thread::sleep_for(milliseconds(1500));
    }
    team.doing("abort, %s: aborting", how);
    check(ncclCommAbort(communicator), "ncclCommAbort");
    team.doing("abort, %s: waiting for the stream", how);
    check(cudaStreamSynchronize(stream), "after an abort");
    graph.reset();
    team.doing("abort, %s: going on", how);
    const Floats other(1 << 20);
    other.set(3);
    expect(team, other, 3, "memory after an abort");
    const ncclComm_t next = team.new_communicators()[0];
    try_it(team, next, team.ranks, 1000, "after an abort");
    check(ncclCommDestroy(next), "ncclCommDestroy");
  }
}

/// Parent, child and unrelated communicators are destroyed in a different order on every rank, some while others are in
/// use.
void destroy_order(Team& team, const CaseSettings& settings) {
  const int rank = team.mine[0].rank;
  for (int round = 0; round < settings.rounds; ++round) {
    constexpr std::size_t kAll = 4;
    ncclComm_t all[kAll];
    for (std::size_t c = 0; c < 2; ++c) all[c] = team.new_communicators()[0];
    team.doing("destroy_order: splitting");
    check(ncclCommSplit(all[0], 0, team.ranks - rank, &all[2], nullptr), "ncclCommSplit");
    check(ncclCommSplit(all[2], 0, rank, &all[3], nullptr), "ncclCommSplit");
    for (const ncclComm_t one : all) try_it(team, one, team.ranks, 3000, "before an end");
    if (round % 2) team.barrier();
    for (std::size_t k = 0; k < kAll; ++k) {
      const std::size_t c = (k + static_cast<std::size_t>(settings.ends_differ ? rank + round : round)) % kAll;
      team.doing("destroy_order: destroying communicator %zu", c);
      if (((settings.ends_differ ? rank : 0) + round) % 3 == 0) {
        check(ncclCommFinalize(all[c]), "ncclCommFinalize");
        settle(all[c], ncclInProgress, "ncclCommFinalize");
      }
      check(ncclCommDestroy(all[c]), "ncclCommDestroy");
      if (k == 1) {  // the memory of destroyed communicators is reused
        const Floats other(8 << 20);
        other.set(5);
        expect(team, other, 5, "memory amid ends");
      }
    }
  }
}

void long_nap(void*) { std::this_thread::sleep_for(milliseconds(100)); }

/// Queued work has run when ncclCommFinalize returns, without a wait for its stream: on one stream, on two, in a graph.
void finalize(Team& team, const CaseSettings& settings) {
  constexpr std::size_t kCount = 100'000;
  for (int round = 0; round < settings.rounds; ++round) {
    const cudaStream_t streams[] = {new_stream(), new_stream()};
    const ncclComm_t communicator = team.new_communicators()[0];
    try_it(team, communicator, team.ranks, kCount, "before it is finalized");  // NCCL connects
    const Floats data(kCount);
    data.set(1);
    const auto call = [&](cudaStream_t stream) { all_reduce(data, kCount, communicator, stream); };
    std::optional<Recorded> graph;
    if (round % 3 == 2) graph.emplace(streams[0], [&] { call(streams[0]); });
    team.barrier();
    check(cudaLaunchHostFunc(streams[0], long_nap, nullptr), "cudaLaunchHostFunc");
    if (graph)
      graph->launch(streams[0]);
    else
      call(streams[0]);
    float expected = static_cast<float>(team.ranks);
    if (round % 3 == 1) {
      call(streams[1]);
      expected *= static_cast<float>(team.ranks);
    }
    graph.reset();  // NCCL waits for its graphs to be destroyed
    team.doing("finalize: round %d", round);
    check(ncclCommFinalize(communicator), "ncclCommFinalize");
    expect(team, data, expected, "finalize");  // by a copy that waits for none of these streams
    check(ncclCommDestroy(communicator), "ncclCommDestroy");
    for (const cudaStream_t one : streams) check(cudaStreamDestroy(one), "cudaStreamDestroy");
  }
}

/// Returns the free bytes of a GPU. Other programs must not use the GPU.
std::size_t free_bytes() {
  std::size_t free = 0, total = 0;
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

/// Measures the memory that several communicators together take on each GPU. Stores it in Shared::bytes.
void take_memory(Team& team, const CaseSettings& settings) {
  const std::size_t before = free_bytes();
  std::vector<ncclComm_t> communicators;
  for (int c = 0; c < 3; ++c) {
    communicators.push_back(team.new_communicators()[0]);
    for (const std::size_t count : {std::size_t{1000}, std::size_t{64} << 10, std::size_t{1} << 20})
      try_it(team, communicators.back(), team.ranks, count, "memory");
  }
  team.barrier();
  const int rank = team.mine[0].rank;
  team.shared.bytes[rank].store(static_cast<std::int64_t>(before) - static_cast<std::int64_t>(free_bytes()));
  team.barrier();
  for (const ncclComm_t one : communicators) check(ncclCommDestroy(one), "ncclCommDestroy");
  (void)settings;
}

/// Repeatedly creates, uses and destroys ten communicators. Stores the memory growth after the third time in
/// Shared::bytes.
void many(Team& team, const CaseSettings& settings) {
  const int rank = team.mine[0].rank;
  std::size_t early = 0;
  for (int round = 0; round < settings.rounds; ++round) {
    std::vector<ncclComm_t> communicators;
    for (int c = 0; c < 10; ++c) {
      team.doing("many: round %d, communicator %d", round, c);
      communicators.push_back(team.new_communicators()[0]);
      try_it(team, communicators.back(), team.ranks, 2000, "one of many");
    }
    for (const ncclComm_t one : communicators) {
      team.doing("many: round %d, destroying", round);
      check(ncclCommDestroy(one), "ncclCommDestroy");
    }
    team.barrier();
    if (round == 2) early = free_bytes();
    team.barrier();
  }
  team.shared.bytes[rank].store(static_cast<std::int64_t>(early) - static_cast<std::int64_t>(free_bytes()));
}

/// The fast path's kernel directly before and after nodes and calls that are not kernels, with one and two before it.
void capture_after_memset(Team& team, const CaseSettings& settings) {
  const ncclComm_t communicator = team.new_communicators()[0];
  constexpr std::size_t kBig = 8 << 20;  // number of floats, so that the earlier work takes a while
  const Floats source(kBig), input(kBig), output(kBig), copy(kBig), other(kBig);
  const cudaStream_t stream = new_stream(), second = new_stream();
  cudaEvent_t fork{}, join{};
  check(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming), "cudaEventCreate");
  check(cudaEventCreateWithFlags(&join, cudaEventDisableTiming), "cudaEventCreate");
  for (const std::size_t count : {std::size_t{256}, std::size_t{100} << 10, std::size_t{1} << 20}) {
    const std::size_t tail = kBig - count;
    const auto reduce = [&](const float* from) {
      check(ncclAllReduce(from, output.data() + tail, count, ncclFloat32, ncclSum, communicator, stream),
            "ncclAllReduce");
    };
    const auto queue = [&](int way) {
      const bool two = way >= 2;
      if (two) {
        check(cudaEventRecord(fork, stream), "cudaEventRecord");
        check(cudaStreamWaitEvent(second, fork, 0), "cudaStreamWaitEvent");
        check(cudaMemsetAsync(output.data(), 0, kBig * 4, second), "cudaMemsetAsync");
        check(cudaEventRecord(join, second), "cudaEventRecord");
      }
      if (way % 2 == 0)
        check(cudaMemcpyAsync(input.data(), source.data(), kBig * 4, cudaMemcpyDeviceToDevice, stream),
              "cudaMemcpyAsync");
      else
        check(cudaMemsetAsync(input.data(), 0x3f, kBig * 4, stream), "cudaMemsetAsync");
      if (two) check(cudaStreamWaitEvent(stream, join, 0), "cudaStreamWaitEvent");
      reduce(input.data() + tail);
      check(cudaMemcpyAsync(copy.data(), output.data(), kBig * 4, cudaMemcpyDeviceToDevice, stream), "cudaMemcpyAsync");
      check(cudaMemsetAsync(input.data(), 0, kBig * 4, stream), "cudaMemsetAsync");
      reduce(copy.data() + tail);
      reduce(output.data() + tail);
    };
    for (int way = 0; way < 4; ++way) {
      const Recorded graph(stream, [&] { queue(way); });
      for (int i = 0; i < settings.rounds; ++i) {
        team.doing("capture_after_memset: %zu floats, way %d, time %d", count, way, i);
        const float value = way % 2 == 0 ? static_cast<float>(1 + i) : 0.747058808803558349609375f;  // 0x3f3f3f3f
        source.set(value);
        other.set(-1);
        check(cudaMemcpy(output.data(), other.data(), kBig * 4, cudaMemcpyDeviceToDevice), "copying");
        check(cudaDeviceSynchronize(), "setting");
        if (i % 2)
          queue(way);
        else
          graph.launch(stream);
        check(cudaStreamSynchronize(stream), "running");
        float once = 0, thrice = 0;
        for (int r = 0; r < team.ranks; ++r) once += value;
        const auto sum_of = [&](float one) {
          float sum = 0;
          for (int r = 0; r < team.ranks; ++r) sum += one;
          return sum;
        };
        thrice = sum_of(sum_of(once));
        std::vector<float> copied(count), last(count);
        check(cudaMemcpy(copied.data(), copy.data() + tail, count * 4, cudaMemcpyDeviceToHost), "copying back");
        check(cudaMemcpy(last.data(), output.data() + tail, count * 4, cudaMemcpyDeviceToHost), "copying back");
        for (std::size_t e = 0; e < count; ++e)
          if (copied[e] != once || last[e] != thrice) {
            wrong(team.shared,
                  "capture_after_memset: rank %d, %zu floats, way %d, time %d, element %zu: copy %g (expected %g), "
                  "last %g (expected %g)",
                  team.mine[0].rank, count, way, i, e, static_cast<double>(copied[e]), static_cast<double>(once),
                  static_cast<double>(last[e]), static_cast<double>(thrice));
            break;
          }
      }
    }
  }
  check(ncclCommDestroy(communicator), "ncclCommDestroy");
}

void nap(void*) { std::this_thread::sleep_for(std::chrono::microseconds(300)); }

/// Graphs of one communicator that are launched on unordered streams run in the order of their launches, also if a
/// rank's first stream is late. They outlive their communicator.
void overlapping_graphs(Team& team, const CaseSettings& settings) {
  constexpr std::size_t kGraphs = 3;
  constexpr int kCalls = 3, kLaunches = 20;
  constexpr std::size_t kCounts[kGraphs] = {256, 100'000, 1000};
  const ncclComm_t communicator = team.new_communicators()[0];
  const auto rank = static_cast<std::size_t>(team.mine[0].rank);
  float expected = 1;
  for (int i = 0; i < kCalls; ++i) expected *= static_cast<float>(team.ranks);
  struct One {
    cudaStream_t stream = new_stream();
    std::unique_ptr<Floats> ones, data;
    std::optional<Recorded> graph;
  } all[kGraphs];
  for (std::size_t g = 0; g < kGraphs; ++g) {
    One& one = all[g];
    const std::size_t count = kCounts[g];
    one.ones = std::make_unique<Floats>(count);
    one.ones->set(1);
    one.data = std::make_unique<Floats>(count);
    one.graph.emplace(one.stream, [&] {
      check(cudaMemcpyAsync(one.data->data(), one.ones->data(), count * sizeof(float), cudaMemcpyDeviceToDevice,
                            one.stream),
            "cudaMemcpyAsync");
      for (int i = 0; i < kCalls; ++i) all_reduce(*one.data, count, communicator, one.stream);
    });
  }
  for (int round = 0; round < settings.rounds; ++round) {
    team.barrier();
    for (int launch = 0; launch < kLaunches; ++launch)
      for (std::size_t g = 0; g < kGraphs; ++g) {
        team.doing("overlapping_graphs: round %d, launch %d of graph %zu", round, launch, g);
        if ((rank + g + static_cast<std::size_t>(launch)) % kGraphs == 0)
          check(cudaLaunchHostFunc(all[g].stream, nap, nullptr), "cudaLaunchHostFunc");
        all[g].graph->launch(all[g].stream);
      }
    for (const One& one : all) {
      team.doing("overlapping_graphs: round %d, waiting", round);
      check(cudaStreamSynchronize(one.stream), "running");
      expect(team, *one.data, expected, "overlapping_graphs");
    }
  }
  team.doing("overlapping_graphs: ending the communicator before its graphs");
  check(ncclCommDestroy(communicator), "ncclCommDestroy");
  for (One& one : all) {
    one.graph.reset();
    check(cudaStreamDestroy(one.stream), "cudaStreamDestroy");
  }
  try_it(team, team.new_communicators()[0], team.ranks, 1000, "after its graphs");
}

/// A graph and calls of one communicator on unordered streams and the same data. Each uses the result of the previous
/// launch, also if one of the streams is late.
void calls_beside_graphs(Team& team, const CaseSettings& settings) {
  constexpr int kTurns = 5;
  const ncclComm_t communicator = team.new_communicators()[0];
  const cudaStream_t graphs = new_stream(), calls = new_stream();
  const auto rank = team.mine[0].rank;
  const auto ranks = static_cast<float>(team.ranks);
  {
    const Floats data(1000);
    try_it(team, communicator, team.ranks, 1000, "before graphs");  // NCCL connects
    data.set(1);
    team.barrier();
    team.doing("calls_beside_graphs: the first graph");
    // The other ranks' parts of the call arrive before this rank's part. A graph that does not wait would add to them.
    if (rank == 0) check(cudaLaunchHostFunc(calls, long_nap, nullptr), "cudaLaunchHostFunc");
    all_reduce(data, 1000, communicator, calls);
    const Recorded first(graphs, [&] { all_reduce(data, 1000, communicator, graphs); });
    first.launch(graphs);
    for (const cudaStream_t stream : {graphs, calls}) check(cudaStreamSynchronize(stream), "running");
    expect(team, data, ranks * ranks, "calls_beside_graphs: the first graph");
  }
  float expected = 1;
  for (int i = 0; i < 2 * kTurns; ++i) expected *= ranks;
  for (const std::size_t count : {std::size_t{256}, std::size_t{100'000}, std::size_t{1} << 20}) {
    const Floats data(count);
    try_it(team, communicator, team.ranks, count, "before graphs");
    const Recorded graph(graphs, [&] { all_reduce(data, count, communicator, graphs); });
    for (int round = 0; round < settings.rounds; ++round) {
      data.set(1);
      team.barrier();
      for (int turn = 0; turn < kTurns; ++turn) {
        team.doing("calls_beside_graphs: %zu floats, round %d, turn %d", count, round, turn);
        const int late = (rank + turn + round) % 3;
        if (late != 0) check(cudaLaunchHostFunc(late == 1 ? graphs : calls, nap, nullptr), "cudaLaunchHostFunc");
        graph.launch(graphs);
        all_reduce(data, count, communicator, calls);
      }
      team.doing("calls_beside_graphs: %zu floats, round %d, waiting", count, round);
      for (const cudaStream_t stream : {graphs, calls}) check(cudaStreamSynchronize(stream), "running");
      expect(team, data, expected, "calls_beside_graphs");
    }
  }
  check(ncclCommDestroy(communicator), "ncclCommDestroy");
}

/// Creates a non-blocking communicator of all ranks. Collective.
ncclComm_t new_nonblocking(Team& team) {
  team.doing("making a communicator that does not wait");
  team.barrier();
  if (team.first()) check(ncclGetUniqueId(&team.shared.id), "ncclGetUniqueId");
  team.barrier();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t communicator = nullptr;
  const ncclResult_t made =
      ncclCommInitRankConfig(&communicator, team.ranks, team.shared.id, team.mine[0].rank, &config);
  settle(communicator, made, "ncclCommInitRankConfig");
  return communicator;
}

void end_nonblocking(ncclComm_t communicator) {
  settle(communicator, ncclCommFinalize(communicator), "ncclCommFinalize");
  check(ncclCommDestroy(communicator), "ncclCommDestroy");
}

/// A non-blocking communicator.
void nonblocking(Team& team, const CaseSettings&) {
  const ncclComm_t communicator = new_nonblocking(team);
  const cudaStream_t stream = new_stream();
  const Floats data(5000);
  const auto add_up = [&](ncclComm_t one) {
    settle(one, ncclAllReduce(data.data(), data.data(), data.count(), ncclFloat32, ncclSum, one, stream),
           "ncclAllReduce");
    check(cudaStreamSynchronize(stream), "running");
  };
  for (int i = 0; i < 20; ++i) {
    team.doing("nonblocking: call %d", i);
    data.set(1);
    add_up(communicator);
    expect(team, data, static_cast<float>(team.ranks), "nonblocking");
  }
  team.doing("nonblocking: splitting");
  ncclComm_t child = nullptr;
  settle(communicator, ncclCommSplit(communicator, 0, team.mine[0].rank, &child, nullptr), "ncclCommSplit");
  const volatile ncclComm_t* there = &child;  // NCCL sets it when the communicator is created
  while (*there == nullptr) std::this_thread::sleep_for(milliseconds(1));
  settle(child, ncclInProgress, "ncclCommSplit");
  add_up(child);
  expect(team, data, static_cast<float>(team.ranks * team.ranks), "nonblocking child");
  end_nonblocking(child);
  end_nonblocking(communicator);
}

/// One group with calls of a blocking and of a non-blocking communicator, in either order, on separate streams. NCCL
/// itself fails here: the blocking communicator stays "in progress" forever if the other one's call came last. So the
/// blocking communicator's calls have sizes that every table accelerates.
void nonblocking_in_a_group(Team& team, const CaseSettings& settings) {
  const ncclComm_t waits = team.new_communicators()[0], goes_on = new_nonblocking(team);
  const cudaStream_t streams[] = {new_stream(), new_stream()};
  for (const std::size_t count : {std::size_t{256}, std::size_t{100'000}, std::size_t{32} << 20}) {
    const Floats waited(std::min<std::size_t>(count, 8000)), others(count);
    for (int round = 0; round < 4 * settings.rounds; ++round) {
      team.doing("nonblocking_in_a_group: %zu floats, round %d", count, round);
      waited.set(1);
      others.set(1);
      check(ncclGroupStart(), "ncclGroupStart");
      for (const int turn : {round % 2, 1 - round % 2})
        if (turn == 0)
          all_reduce(waited, waited.count(), waits, streams[0]);
        else if (const ncclResult_t queued =
                     ncclAllReduce(others.data(), others.data(), count, ncclFloat32, ncclSum, goes_on, streams[1]);
                 queued != ncclInProgress)
          check(queued, "ncclAllReduce");
      settle(goes_on, ncclGroupEnd(), "ncclGroupEnd");
      for (const cudaStream_t stream : streams) check(cudaStreamSynchronize(stream), "running");
      expect(team, waited, static_cast<float>(team.ranks), "nonblocking_in_a_group: the one that waits");
      expect(team, others, static_cast<float>(team.ranks), "nonblocking_in_a_group: the one that does not");
    }
  }
  for (const cudaStream_t stream : streams) check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  end_nonblocking(goes_on);
  check(ncclCommDestroy(waits), "ncclCommDestroy");
}

/// An error of the program that only BUSBW_FASTPATH=verify can find: the output overlaps input that is still to be
/// read. With one warp (BUSBW_FASTPATH_METHOD=exchange,1,32) the results of the first step are stored before the next
/// step reads.
void verify_finds(Team& team, const CaseSettings&) {
  constexpr std::size_t kCount = 64 << 10, kShift = 8 << 10;
  const ncclComm_t communicator = team.new_communicators()[0];
  const Floats data(kCount + kShift);
  data.set(1);
  const cudaStream_t stream = new_stream();
  check(ncclAllReduce(data.data(), data.data() + kShift, kCount, ncclFloat32, ncclSum, communicator, stream),
        "ncclAllReduce");
  check(cudaStreamSynchronize(stream), "running");
  ncclResult_t found = ncclSuccess;
  check(ncclCommGetAsyncError(communicator, &found), "ncclCommGetAsyncError");
  if (found != ncclInternalError)
    wrong(team.shared, "verify_finds: rank %d: ncclCommGetAsyncError says %s", team.mine[0].rank,
          ncclGetErrorString(found));
  team.barrier();
  check(ncclCommDestroy(communicator), "ncclCommDestroy");
}

/// Runs a function in a new process with a variable set, so that the library reads its environment again.
int run_apart(Shared& shared, const CaseSettings& settings, const char* value,
              void (*act)(Team&, const CaseSettings&)) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    setenv("BUSBW_FASTPATH", value, 1);
    const int code = run_team(shared, settings.ranks, Mode::threads, [&](Team& team) {
      check(cudaSetDevice(team.mine[0].gpu), "cudaSetDevice");
      act(team, settings);
    });
    std::fflush(nullptr);
    _exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 3;
}

/// Memory that the fast path takes: the difference between runs with and without it.
int compare_memory(const char* name, const CaseSettings& settings, void (*act)(Team&, const CaseSettings&),
                   std::int64_t max_bytes, bool with_off) {
  std::int64_t without[kMaxRanks] = {};
  if (with_off) {
    Shared& shared = make_shared();
    if (const int code = run_apart(shared, settings, "off", act); code != 0) return code;
    for (int r = 0; r < settings.ranks; ++r) without[r] = shared.bytes[r].load();
  }
  Shared& shared = make_shared();
  int code = run_apart(shared, settings, "on", act);
  for (int r = 0; r < settings.ranks; ++r) {
    const std::int64_t with = shared.bytes[r].load();
    std::printf("%s: GPU %d: %.1f MiB with the fast path, %.1f MiB without, %.1f MiB more\n", name, r,
                double(with) / kMib, double(without[r]) / kMib, double(with - without[r]) / kMib);
    if (code == 0 && with - without[r] > max_bytes) {
      wrong(shared, "%s: more than %lld MiB", name, static_cast<long long>(max_bytes / kMib));
      code = 1;
    }
  }
  return code;
}

const std::map<std::string, void (*)(Team&, const CaseSettings&)> kCases{
    {"crossed", crossed},
    {"abort", abort},
    {"destroy_order", destroy_order},
    {"finalize", finalize},
    {"capture_after_memset", capture_after_memset},
    {"overlapping_graphs", overlapping_graphs},
    {"calls_beside_graphs", calls_beside_graphs},
    {"nonblocking", nonblocking},
    {"nonblocking_in_a_group", nonblocking_in_a_group},
    {"verify_finds", verify_finds},
};
// 64 MiB and the code of the loaded kernels.
constexpr std::int64_t kMaxBytes = 76 * std::int64_t{kMib};
// Granularity of CUDA's allocations.
constexpr std::int64_t kMaxGrowth = 4 * std::int64_t{kMib};

}  // namespace

std::vector<std::string> case_names() {
  std::vector<std::string> names{"memory", "many"};
  for (const auto& [name, act] : kCases) names.push_back(name);
  return names;
}

int run_case(const std::string& name, const CaseSettings& settings) {
  if (name == "memory") return compare_memory("memory", settings, take_memory, kMaxBytes, true);
  if (name == "many") return compare_memory("many", settings, many, kMaxGrowth, false);
  const auto found = kCases.find(name);
  if (found == kCases.end()) return 2;
  Shared& shared = make_shared();
  return run_team(shared, settings.ranks, settings.mode, [&](Team& team) {
    check(cudaSetDevice(team.mine[0].gpu), "cudaSetDevice");
    found->second(team, settings);
  });
}

}  // namespace stress
