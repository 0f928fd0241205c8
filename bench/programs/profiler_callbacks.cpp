// Measures the cost of the profiler plugin's callbacks for one operation, called in NCCL's order with version 5 of the
// interface.
//
// Usage: BUSBW_TRACE_DIRECTORY=FOLDER profiler_callbacks PLUGIN
//
// Prints one line per number of threads and kind of events: threads, kernels (events of four channels: 0 or 1), then
// lower quartile, median and upper quartile over rounds, in ns per operation and thread.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "nccl_events.hpp"

namespace {

using namespace busbw::test;

constexpr int kRounds = 41;
constexpr int kOperations = 2000;  // per round; few, so that all rounds stay below the size limit
constexpr int kChannels = 4;

// NCCL's numbers of types and states of events.
constexpr std::uint64_t kPlan = 1 << 0;
constexpr std::uint64_t kCollective = 1 << 1;
constexpr std::uint64_t kKernelChannel = 1 << 6;
constexpr std::uint64_t kGroupCall = 1 << 8;
constexpr std::uint64_t kCollectiveCall = 1 << 9;
constexpr int kKernelChannelStop = 22;
constexpr int kGroupStartEnded = 23;
constexpr int kGroupEndStarted = 24;

/// Calls the plugin as NCCL does for one all-reduce.
void report_operation(const PluginTable<FifthInit>& plugin, void* context, bool has_kernels) {
  void *group = nullptr, *call = nullptr, *plan = nullptr, *task = nullptr;
  GroupCallDescriptor group_call{.type = kGroupCall, .depth = 1};
  plugin.start(context, &group, &group_call);
  plugin.state(group, kGroupStartEnded, nullptr);
  CollectiveCallDescriptor collective_call{
      .type = kCollectiveCall, .parent = group, .function = "AllReduce", .count = 256, .datatype = "ncclFloat32"};
  plugin.start(context, &call, &collective_call);
  plugin.stop(call);
  plugin.state(group, kGroupEndStarted, nullptr);
  CollectiveDescriptor<std::uint64_t> plan_event{.type = kPlan};
  plugin.start(context, &plan, &plan_event);
  CollectiveDescriptor<std::uint64_t> collective{.type = kCollective,
                                                 .parent = call,
                                                 .function = "AllReduce",
                                                 .send = context,
                                                 .receive = context,
                                                 .count = 256,
                                                 .datatype = "ncclFloat32",
                                                 .channels = kChannels,
                                                 .algorithm = "RING",
                                                 .protocol = "LL",
                                                 .parent_group = plan};
  plugin.start(context, &task, &collective);
  plugin.stop(task);
  plugin.stop(plan);
  plugin.stop(group);
  if (!has_kernels) return;
  for (std::uint64_t channel = 0; channel < kChannels; ++channel) {
    void* kernel = nullptr;
    KernelDescriptor<std::uint64_t> event{.type = kKernelChannel, .parent = task, .timer = 1000 - channel};
    plugin.start(context, &kernel, &event);
    std::uint64_t end_ns = 2000 + channel;
    plugin.state(kernel, kKernelChannelStop, &end_ns);
    plugin.stop(kernel);
  }
}

}  // namespace

int main(int argument_count, char** arguments) {
  void* const library = argument_count == 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
  auto* const plugin =
      library ? static_cast<const PluginTable<FifthInit>*>(dlsym(library, "ncclProfiler_v5")) : nullptr;
  if (plugin == nullptr || std::getenv("BUSBW_TRACE_DIRECTORY") == nullptr) {
    fmt::print(stderr, "usage: BUSBW_TRACE_DIRECTORY=FOLDER profiler_callbacks PLUGIN\n");
    return 2;
  }
  for (const int thread_count : {1, 4})
    for (const bool has_kernels : {false, true}) {
      std::vector<double> times_ns(static_cast<std::size_t>(kRounds * thread_count));
      std::barrier barrier(thread_count);
      {
        std::vector<std::jthread> threads;
        for (int thread = 0; thread < thread_count; ++thread)
          threads.emplace_back([&, thread] {
            void* context = nullptr;
            int mask = 0;
            plugin->init(&context, 1, &mask, "", 1, 2, thread, nullptr);
            for (int round = 0; round < kRounds; ++round) {
              barrier.arrive_and_wait();
              const auto start = std::chrono::steady_clock::now();
              for (int operation = 0; operation < kOperations; ++operation)
                report_operation(*plugin, context, has_kernels);
              const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
              times_ns[static_cast<std::size_t>(thread * kRounds + round)] = time.count() / kOperations;
            }
          });
      }
      std::ranges::sort(times_ns);
      const std::size_t count = times_ns.size();
      fmt::print("{} {} {:.0f} {:.0f} {:.0f}\n", thread_count, has_kernels ? 1 : 0, times_ns[count / 4],
                 times_ns[count / 2], times_ns[count * 3 / 4]);
    }
  return 0;
}
