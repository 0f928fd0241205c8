// The observer with the real profiler plugin, which the tests call as NCCL does.
#include "backends/nccl/profiler/algorithm_observer.hpp"

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <thread>

#include "../../../../profiler/nccl_events.hpp"
#include "common/support/error.hpp"
#include "support_errors.hpp"

using namespace busbw;

namespace {

/// Version 4 of the interface, of the library that the observer has loaded.
class Nccl {
 public:
  Nccl() {
    void* const plugin = dlopen(std::getenv(kProfilerVariable), RTLD_NOW | RTLD_LOCAL);
    REQUIRE_MESSAGE(plugin != nullptr, dlerror());
    table_ = static_cast<const test::PluginTable<test::FourthInit>*>(dlsym(plugin, "ncclProfiler_v4"));
    REQUIRE(table_ != nullptr);
    void* context = nullptr;
    CHECK(table_->init(&context, &mask_, "a", 1, 1, 2, 0, nullptr) == 0);
  }
  ~Nccl() { unsetenv(kProfilerVariable); }
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  /// Runs a collective. NCCL reports it only if the mask has its bit, and its group has a handle.
  void run(const void* recv, const char* algorithm, const char* protocol = "LL", std::uint8_t channels = 2) {
    constexpr int kGroup = 1;
    constexpr int kCollective = 2;
    if ((mask_ & kCollective) == 0) return;
    test::GroupCallDescriptor group{.type = kGroup};
    void* plan = nullptr;
    table_->start(nullptr, &plan, &group);
    if (plan == nullptr) return;
    test::CollectiveDescriptor<std::uint8_t> event{.type = kCollective,
                                                   .parent = plan,
                                                   .function = "AllReduce",
                                                   .receive = const_cast<void*>(recv),
                                                   .count = 8,
                                                   .datatype = "ncclFloat32",
                                                   .channels = channels,
                                                   .algorithm = algorithm,
                                                   .protocol = protocol};
    void* task = nullptr;
    table_->start(nullptr, &task, &event);
    table_->stop(task);
    table_->stop(plan);
    ++reported;
  }
  int mask() const { return mask_; }
  int reported = 0;

 private:
  const test::PluginTable<test::FourthInit>* table_ = nullptr;
  int mask_ = -1;
};

struct RankBuffers {
  std::array<std::byte, 64> send{}, recv{};
};

}  // namespace

TEST_CASE("algorithm observer: returns the choices for operations into the buffers of each rank") {
  AlgorithmObserver observer(BUSBW_PROFILER);
  Nccl nccl;
  std::array<RankBuffers, 2> ranks;
  for (const RankBuffers& rank : ranks) observer.begin(&rank, rank.send, rank.recv);
  nccl.run(ranks[0].recv.data() + 16, "RING");
  nccl.run(ranks[0].recv.data(), "RING");
  nccl.run(ranks[1].send.data(), "NVLS_TREE", "SIMPLE", 16);  // in place
  nccl.run(ranks[1].recv.data(), "TREE");
  nccl.run(&nccl, "PAT");  // of another communicator
  CHECK(observer.end(&ranks[0]) == std::vector<AlgorithmChoice>{{"ring", "ll", 2}});
  CHECK(observer.end(&ranks[1]) == std::vector<AlgorithmChoice>{{"nvls_tree", "simple", 16}, {"tree", "ll", 2}});
  observer.begin(&ranks[0], ranks[0].send, ranks[0].recv);
  CHECK(observer.end(&ranks[0]).empty());
}

TEST_CASE("algorithm observer: NCCL reports nothing while no rank observes") {
  AlgorithmObserver observer(BUSBW_PROFILER);
  Nccl nccl;
  std::array<RankBuffers, 2> ranks;
  CHECK(nccl.mask() == 0);
  nccl.run(ranks[0].recv.data(), "RING");
  CHECK(nccl.reported == 0);
  for (const RankBuffers& rank : ranks) observer.begin(&rank, rank.send, rank.recv);
  observer.end(&ranks[0]);
  nccl.run(ranks[1].recv.data(), "RING");
  CHECK(nccl.reported == 1);
  CHECK(observer.end(&ranks[1]).size() == 1);
  CHECK(nccl.mask() == 0);
}

TEST_CASE("algorithm observer: a kernel without an algorithm is unknown, though NCCL names the first of its list") {
  AlgorithmObserver observer(BUSBW_PROFILER);
  Nccl nccl;
  const RankBuffers rank;
  observer.begin(&rank, rank.send, rank.recv);
  nccl.run(rank.recv.data(), "TREE", "LL", 0);
  CHECK(observer.end(&rank) == std::vector<AlgorithmChoice>{{"", "", 0}});
}

TEST_CASE("algorithm observer: ranks observe from threads of their own") {
  AlgorithmObserver observer(BUSBW_PROFILER);
  Nccl nccl;
  std::array<RankBuffers, 4> ranks;
  std::array<std::size_t, 4> counts{};
  std::vector<std::thread> threads;
  for (const RankBuffers& rank : ranks) observer.begin(&rank, rank.send, rank.recv);
  for (std::size_t i = 0; i < ranks.size(); ++i)
    threads.emplace_back([&, i] {
      for (int operation = 0; operation < 100; ++operation)
        nccl.run(ranks[i].recv.data(), operation % 2 == 0 ? "RING" : "TREE");
      counts[i] = observer.end(&ranks[i]).size();
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(std::ranges::count(counts, 2) == 4);
}

TEST_CASE("algorithm observer: none beside the profiler of the user, or in a recorded process") {
  CHECK(make_algorithm_observer([](const char* variable) -> std::optional<std::string> {
          return std::string_view(variable) == kProfilerVariable ? std::optional("theirs.so") : std::nullopt;
        }) == nullptr);
  CHECK(make_algorithm_observer([](const char* variable) -> std::optional<std::string> {
          return std::string_view(variable) == "BUSBW_TRACE_DIRECTORY" ? std::optional("trace") : std::nullopt;
        }) == nullptr);
  CHECK(make_algorithm_observer([](const char*) { return std::optional<std::string>(); }) != nullptr);
  CHECK(std::getenv(kProfilerVariable) == find_profiler_plugin());
  unsetenv(kProfilerVariable);
}

TEST_CASE("algorithm observer: another library is refused") {
  CHECK_THROWS_AS(AlgorithmObserver(BUSBW_FAKE_NVML), EnvironmentError);
  CHECK_THROWS_AS(AlgorithmObserver("missing.so"), EnvironmentError);
}
