// Measures what recording with the profiler plugin costs per operation. One process alternates the variants, because
// two starts of a process differ by more than the cost.
//
// Usage: NCCL_PROFILER_PLUGIN=STATIC_PLUGIN BUSBW_TRACE_DIRECTORY=FOLDER profiler_cost LIBNCCL PLUGIN [BYTES]
//
// One thread for each GPU repeats an all-reduce of BYTES (default 1024). The program itself is the plugin that NCCL
// finds, and handles each event as the variant says:
//   none       NCCL reports no event
//   ignored    the plugin returns no handle, so NCCL does not report the end of an event
//   answered   the plugin returns a handle and does nothing else; all of this cost is NCCL's
//   recorded   PLUGIN, which is libbusbw_profiler.so, records the event
//
// Prints the time per operation without events, then one line per variant: its median difference to the rounds without
// events, and the 95 % interval of that median, in us. The second line of `none` shows the noise.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "nccl_events.hpp"

namespace {

using busbw::test::FifthInit;
using Plugin = busbw::test::PluginTable<FifthInit>;

enum class Variant { none, none_again, ignored, answered, recorded };
constexpr std::array kVariants{Variant::none, Variant::none_again, Variant::ignored, Variant::answered,
                               Variant::recorded};
constexpr std::array kNames{"none", "none", "ignored", "answered", "recorded"};
constexpr int kWarmUpRounds = 3;
constexpr int kRounds = 61;
constexpr int kOperations = 1000;  // per round and variant

const Plugin* recorder = nullptr;  // the table of PLUGIN
std::atomic<Variant> variant = Variant::none;
std::atomic<int*> events_mask = nullptr;  // NCCL's mask of events, which is common to all communicators
std::atomic<int> wanted_events = 0;       // the mask that the recorder asks for

int start_event(void* context, void** handle, void* event) {
  switch (variant.load(std::memory_order_relaxed)) {
    case Variant::recorded: return recorder->start(context, handle, event);
    case Variant::answered: *handle = handle; return 0;  // any address that is not null
    default: *handle = nullptr; return 0;
  }
}

int stop_event(void* handle) {
  return variant.load(std::memory_order_relaxed) == Variant::recorded ? recorder->stop(handle) : 0;
}

int record_state(void* handle, int state, void* arguments) {
  if (variant.load(std::memory_order_relaxed) != Variant::recorded) return 0;
  return recorder->state(handle, state, arguments);
}

int init(void** context, std::uint64_t id, int* mask, const char* name, int nodes, int ranks, int rank, void* logger) {
  const int result = recorder->init(context, id, mask, name, nodes, ranks, rank, logger);
  wanted_events = *mask;
  events_mask = mask;
  *mask = 0;
  return result;
}

int finalize(void*) { return 0; }

/// Sets the variant of the next operations. No rank may be within an operation.
void select_variant(Variant selected) {
  variant = selected;
  const bool has_events = selected != Variant::none && selected != Variant::none_again;
  std::atomic_ref(*events_mask.load()).store(has_events ? wanted_events.load() : 0);
}

template <class Function>
Function* find(void* library, const char* name) {
  auto* const function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) throw std::runtime_error(fmt::format("no {} in the library", name));
  return function;
}

void require(cudaError_t result) {
  if (result != cudaSuccess) throw std::runtime_error(cudaGetErrorString(result));
}

void require(ncclResult_t result) {
  if (result != ncclSuccess) throw std::runtime_error(fmt::format("NCCL returned {}", static_cast<int>(result)));
}

struct Nccl {
  explicit Nccl(void* library)
      : make_id(find<decltype(ncclGetUniqueId)>(library, "ncclGetUniqueId")),
        init_rank(find<decltype(ncclCommInitRank)>(library, "ncclCommInitRank")),
        all_reduce(find<decltype(ncclAllReduce)>(library, "ncclAllReduce")),
        destroy(find<decltype(ncclCommDestroy)>(library, "ncclCommDestroy")) {}

  decltype(ncclGetUniqueId)* make_id;
  decltype(ncclCommInitRank)* init_rank;
  decltype(ncclAllReduce)* all_reduce;
  decltype(ncclCommDestroy)* destroy;
};

/// Times per operation in us by variant and round.
using Times = std::array<std::array<double, kRounds>, kVariants.size()>;

/// Runs all rounds of one rank. Rank 0 writes `times`: all ranks start together, so its time is the time of all ranks.
void run_rank(const Nccl& nccl, ncclUniqueId id, int rank, int ranks, std::size_t bytes, std::barrier<>& barrier,
              Times& times) {
  require(cudaSetDevice(rank));
  ncclComm_t comm = nullptr;
  require(nccl.init_rank(&comm, ranks, id, rank));
  void* buffer = nullptr;
  cudaStream_t stream = nullptr;
  require(cudaMalloc(&buffer, bytes));
  require(cudaMemset(buffer, 0, bytes));
  require(cudaStreamCreate(&stream));
  barrier.arrive_and_wait();
  if (events_mask == nullptr || wanted_events == 0)
    throw std::runtime_error("NCCL did not load the plugin, or it cannot write a trace; see the usage");
  for (int round = -kWarmUpRounds; round < kRounds; ++round)
    for (std::size_t position = 0; position < kVariants.size(); ++position) {
      // Each round starts with the next variant, so that a drift of the machine affects all variants alike.
      const std::size_t number = (position + static_cast<std::size_t>(round + kWarmUpRounds)) % kVariants.size();
      barrier.arrive_and_wait();
      if (rank == 0) select_variant(kVariants[number]);
      barrier.arrive_and_wait();
      const auto start = std::chrono::steady_clock::now();
      for (int operation = 0; operation < kOperations; ++operation)
        require(nccl.all_reduce(buffer, buffer, bytes / sizeof(float), ncclFloat32, ncclSum, comm, stream));
      require(cudaStreamSynchronize(stream));
      const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
      if (rank == 0 && round >= 0) times[number][static_cast<std::size_t>(round)] = time.count() / kOperations;
    }
  barrier.arrive_and_wait();
  if (rank == 0) select_variant(Variant::none);
  barrier.arrive_and_wait();
  require(nccl.destroy(comm));
}

template <std::size_t size>
std::array<double, size> sorted(std::array<double, size> values) {
  std::ranges::sort(values);
  return values;
}

void print(const Times& times) {
  const auto& base = times[0];
  fmt::print("none {:.2f} us per operation\n", sorted(base)[kRounds / 2]);
  for (std::size_t number = 1; number < kVariants.size(); ++number) {
    std::array<double, kRounds> differences{};
    std::ranges::transform(times[number], base, differences.begin(), std::minus<>());
    differences = sorted(differences);
    // By the binomial distribution, 61 values have their median between the 23rd and the 39th in 95 % of cases.
    fmt::print("{} {:+.2f} ({:+.2f} to {:+.2f})\n", kNames[number], differences[kRounds / 2], differences[22],
               differences[38]);
  }
}

void measure(const char* nccl_path, const char* plugin_path, std::size_t bytes) {
  void* const plugin = dlopen(plugin_path, RTLD_NOW | RTLD_LOCAL);
  void* const library = dlopen(nccl_path, RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr || library == nullptr) throw std::runtime_error(dlerror());
  recorder = find<const Plugin>(plugin, "ncclProfiler_v5");
  const Nccl nccl(library);
  int ranks = 0;
  require(cudaGetDeviceCount(&ranks));
  ncclUniqueId id;
  require(nccl.make_id(&id));
  Times times{};
  std::barrier barrier(ranks);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        try {
          run_rank(nccl, id, rank, ranks, bytes, barrier, times);
        } catch (const std::exception& error) {
          fmt::print(stderr, "rank {}: {}\n", rank, error.what());
          std::_Exit(1);  // the other ranks would wait for this one
        }
      });
  }
  print(times);
}

}  // namespace

// The plugin that NCCL finds in the program.
extern "C" __attribute__((visibility("default")))
const Plugin ncclProfiler_v5{"profiler_cost", init, start_event, stop_event, record_state, finalize};

int main(int argument_count, char** arguments) {
  if (argument_count < 3 || argument_count > 4 || std::getenv("BUSBW_TRACE_DIRECTORY") == nullptr) {
    fmt::print(stderr,
               "usage: NCCL_PROFILER_PLUGIN=STATIC_PLUGIN BUSBW_TRACE_DIRECTORY=FOLDER profiler_cost LIBNCCL PLUGIN "
               "[BYTES]\n");
    return 2;
  }
  try {
    measure(arguments[1], arguments[2], argument_count == 4 ? std::stoul(arguments[3]) : 1024);
  } catch (const std::exception& error) {
    fmt::print(stderr, "profiler_cost: {}\n", error.what());
    return 1;
  }
  return 0;
}
