#include "mix.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>

#include "plan.hpp"
#include "windows.hpp"

namespace stress {
namespace {

constexpr char kUntouched = 0x5b;
constexpr int kRounds = kKinds, kGraphs = kKinds + 1, kReplays = kKinds + 2, kRemade = kKinds + 3;
using AllToAll = ncclResult_t (*)(const void*, void*, std::size_t, ncclDataType_t, ncclComm_t, cudaStream_t);

/// Memory of a rank with its expected contents.
struct Arena {
  char* memory = nullptr;      // on the GPU
  char* registered = nullptr;  // the same in symmetric windows, for calls that lie there
  char* image = nullptr;     // contents before a round, pinned
  char* back = nullptr;      // contents after the round
  std::vector<char> expected;
  cudaStream_t copies{};
  std::vector<cudaEvent_t> events;
  cudaEvent_t replayed[kMaxGraphs] = {};
};

struct Captured {
  std::vector<cudaGraph_t> graphs;  // by index of mine
  std::vector<cudaGraphExec_t> instances[2];
};

std::uint64_t hash_of(const char* bytes, std::size_t count) {
  std::uint64_t hash = 1469598103934665603u;
  for (std::size_t i = 0; i < count; ++i) hash = (hash ^ static_cast<unsigned char>(bytes[i])) * 1099511628211u;
  return hash;
}

void nap(void* microseconds) { usleep(static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(microseconds))); }

class Mix {
 public:
  Mix(Team& team, const MixSettings& settings)
      : team_(team),
        settings_(settings),
        random_(settings.seed),
        habits_(settings.seed * 1000 + static_cast<unsigned>(team.mine[0].rank)) {
    alltoall_ = reinterpret_cast<AllToAll>(dlsym(RTLD_DEFAULT, "ncclAlltoAll"));
    if (settings.has_windows) windows_ = find_windows();
    arenas_.resize(team.mine.size());
    team_.doing("allocating");
    team_.each([&](Rank& rank, std::size_t i) {
      Arena& arena = arenas_[i];
      check(cudaMalloc(&arena.memory, kArenaBytes), "cudaMalloc");
      if (settings_.has_windows)
        check(windows_.allocate(reinterpret_cast<void**>(&arena.registered), kArenaBytes), "ncclMemAlloc");
      check(cudaMallocHost(&arena.image, kArenaBytes), "cudaMallocHost");
      check(cudaMallocHost(&arena.back, kArenaBytes), "cudaMallocHost");
      arena.expected.resize(kArenaBytes);
      check(cudaStreamCreateWithFlags(&arena.copies, cudaStreamNonBlocking), "cudaStreamCreate");
      rank.streams.resize(kStreams);
      for (cudaStream_t& stream : rank.streams)
        check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
      arena.events.resize(64);
      for (cudaEvent_t& event : arena.events)
        check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
      for (cudaEvent_t& event : arena.replayed)
        check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
    });
    for (int c = 0; c < kCommunicators; ++c) make(c);
  }

  void run() {
    const auto end = std::chrono::steady_clock::now() +
                     std::chrono::microseconds(static_cast<std::int64_t>(settings_.seconds * 1e6));
    auto remade = std::chrono::steady_clock::now();
    for (round_ = 1;; ++round_) {
      team_.barrier();
      if (team_.first()) {
        const auto now = std::chrono::steady_clock::now();
        int stop = now > end ? 1 : 0;
        if (!stop && now - remade > std::chrono::seconds(3)) {
          stop = 2;
          remade = now;
        }
        team_.shared.stop.store(stop);
      }
      team_.barrier();
      const int stop = team_.shared.stop.load();
      if (stop == 1) break;
      if (stop == 2) remake();
      round();
    }
    team_.doing("asking for errors");
    for (const auto& communicators : communicators_)
      for (const ncclComm_t one : communicators) {
        ncclResult_t error = ncclSuccess;
        check(ncclCommGetAsyncError(one, &error), "ncclCommGetAsyncError");
        if (error != ncclSuccess) wrong(team_.shared, "ncclCommGetAsyncError: %s", ncclGetErrorString(error));
      }
    for (int c : {2, 0, 1}) destroy(c);
  }

 private:
  void make(int c) {
    if (c < 2) {
      layouts_[c] = Layout::plain;
      communicators_[c] = team_.new_communicators();
      register_arenas(c);
      connect(c);
      return;
    }
    layouts_[c] = team_.ranks % 2 == 0 && team_.ranks > 2 && random_() % 2 ? Layout::parity : Layout::reversed;
    communicators_[c].resize(team_.mine.size());
    team_.doing("splitting a communicator");
    team_.grouped("ncclCommSplit", [&](Rank& rank, std::size_t i) {
      const bool parity = layouts_[c] == Layout::parity;
      return ncclCommSplit(communicators_[0][i], parity ? rank.rank % 2 : 0,
                           parity ? rank.rank : team_.ranks - rank.rank, &communicators_[c][i], nullptr);
    });
    register_arenas(c);
    connect(c);
  }

  void register_arenas(int c) {
    if (!settings_.has_windows) return;
    team_.doing("registering windows of communicator %d", c);
    registered_[c].assign(team_.mine.size(), nullptr);
    team_.grouped("ncclCommWindowRegister", [&](Rank&, std::size_t i) {
      return windows_.make(communicators_[c][i], arenas_[i].registered, kArenaBytes, &registered_[c][i],
                           NCCL_WIN_COLL_SYMMETRIC);
    });
    for (const ncclWindow_t one : registered_[c])
      if (one == nullptr) wrong(team_.shared, "NCCL made no window");
  }

  /// Lets all ranks send to each other. NCCL connects two ranks at their first transfer, which fails during a capture
  /// of several threads.
  void connect(int c) {
    if (!settings_.connects_first) return;
    Call call;
    call.communicator = c;
    call.stream = c * kStreamsOfOne;
    call.kind = Kind::pass_on;
    call.count = 1000;
    call.bytes = 1 << 16;
    issue_alone(call, "connecting");
    if (alltoall_ != nullptr) {
      call.kind = Kind::alltoall;
      issue_alone(call, "connecting");
    }
    team_.finish("connecting");
  }

  void destroy(int c) {
    team_.doing("destroying communicator %d", c);
    if (settings_.has_windows)
      team_.grouped("ncclCommWindowDeregister",
                    [&](Rank&, std::size_t i) { return windows_.end(communicators_[c][i], registered_[c][i]); });
    team_.each([&](Rank&, std::size_t i) { check(ncclCommDestroy(communicators_[c][i]), "ncclCommDestroy"); });
  }

  /// Destroys one or two communicators, in different order on the ranks, and creates new ones.
  void remake() {
    const bool both = random_() % 2;
    const int one = 1 + static_cast<int>(random_() % 2);
    if (both) {
      const bool even = !settings_.ends_differ || team_.mine[0].rank % 2 == 0;
      destroy(even ? 1 : 2);
      destroy(even ? 2 : 1);
      make(1);
      make(2);
    } else {
      destroy(one);
      make(one);
    }
    if (team_.first()) ++team_.shared.counted[kRemade];
  }

  int index_in(const Call& call, const Rank& rank, int& size) const {
    const auto all = communicator_ranks(layouts_[call.communicator], team_.ranks, rank.rank);
    size = static_cast<int>(all.size());
    return static_cast<int>(std::find(all.begin(), all.end(), rank.rank) - all.begin());
  }

  /// True for calls with window kernels in NCCL. Other calls use no windows, because NCCL 2.28.9 itself fails with a
  /// mix of both (illegal accesses, internal errors, hangs).
  bool lies_in_window(const Call& call) const {
    return settings_.has_windows && call.count > 0 &&
           (call.kind == Kind::all_reduce || call.kind == Kind::all_gather || call.kind == Kind::reduce_scatter) &&
           (call.type == ncclFloat16 || call.type == ncclBfloat16 || call.type == ncclFloat32);
  }
  char* memory_of(const Call& call, const Arena& arena) const {
    return lies_in_window(call) ? arena.registered : arena.memory;
  }

  ncclResult_t issue(const Call& call, Rank& rank, std::size_t i) {
    int size = 0;
    const int index = index_in(call, rank, size);
    const BufferOffsets offsets = offsets_of(call, rank.rank, index, size);
    char* const send = memory_of(call, arenas_[i]) + offsets.send;
    char* const receive = memory_of(call, arenas_[i]) + offsets.receive;
    const ncclComm_t communicator = communicators_[call.communicator][i];
    const cudaStream_t stream = rank.streams[static_cast<std::size_t>(call.stream)];
    switch (call.kind) {
      case Kind::all_reduce: return ncclAllReduce(send, receive, call.count, call.type, call.op, communicator, stream);
      case Kind::all_gather: return ncclAllGather(send, receive, call.count, call.type, communicator, stream);
      case Kind::reduce_scatter:
        return ncclReduceScatter(send, receive, call.count, call.type, call.op, communicator, stream);
      case Kind::broadcast:
        return ncclBroadcast(index == call.root || call.in_place || call.salt % 2 ? send : nullptr, receive, call.count,
                             call.type, call.root, communicator, stream);
      case Kind::alltoall: return alltoall_(send, receive, call.count, call.type, communicator, stream);
      case Kind::pass_on: break;
    }
    check(ncclGroupStart(), "ncclGroupStart");
    check(ncclSend(send, call.count, call.type, (index + 1) % size, communicator, stream), "ncclSend");
    check(ncclRecv(receive, call.count, call.type, (index + size - 1) % size, communicator, stream), "ncclRecv");
    return ncclGroupEnd();
  }

  void tell(const Call& call, const char* where) const {
    team_.doing("round %llu %s: %s %s %s count %zu communicator %d stream %d%s", (unsigned long long)round_, where,
                name(call.kind), name(call.type), name(call.op), call.count, call.communicator, call.stream,
                call.in_place ? " in place" : "");
  }

  void issue_alone(const Call& call, const char* where) {
    tell(call, where);
    team_.grouped(name(call.kind), [&](Rank& rank, std::size_t i) { return issue(call, rank, i); });
    if (team_.first()) ++team_.shared.counted[static_cast<int>(call.kind)];
  }

  void lay_out(const Call& call, const Rank& rank, Arena& arena) {
    const auto all = communicator_ranks(layouts_[call.communicator], team_.ranks, rank.rank);
    const int size = static_cast<int>(all.size());
    const auto index = static_cast<std::size_t>(std::find(all.begin(), all.end(), rank.rank) - all.begin());
    const BufferOffsets offsets = offsets_of(call, rank.rank, static_cast<int>(index), size);
    const std::size_t element = bytes_of(call.type);
    char* const send = arena.image + offsets.send;
    if (call.is_noisy) {
      std::mt19937_64 noise(call.salt * 31 + static_cast<unsigned>(rank.rank));
      make_noise(send, call.type, call.count, noise);
      std::memcpy(&arena.expected[offsets.send], send, call.count * element);
      return;
    }
    const bool reduces = call.kind == Kind::all_reduce || call.kind == Kind::reduce_scatter;
    const auto input = [&](int r) { return inputs(call.type, reduces ? call.op : ncclSum, call.salt, r, size); };
    const auto own = input(rank.rank);
    tile(send, own, element, 0, call.send_count(size));
    std::memcpy(&arena.expected[offsets.send], send, call.send_count(size) * element);
    char* const out = &arena.expected[offsets.receive];
    double factor = 1;
    for (int k = 1; k < call.times; ++k) factor *= size;
    switch (call.kind) {
      case Kind::all_reduce:
        tile(out, reduced(call.type, call.op, call.salt, all, factor), element, 0, call.count);
        break;
      case Kind::reduce_scatter:
        tile(out, reduced(call.type, call.op, call.salt, all, 1), element, index * call.count, call.count);
        break;
      case Kind::all_gather:
        for (int p = 0; p < size; ++p)
          tile(out + static_cast<std::size_t>(p) * call.count * element, input(all[static_cast<std::size_t>(p)]),
               element, 0, call.count);
        break;
      case Kind::alltoall:
        for (int p = 0; p < size; ++p)
          tile(out + static_cast<std::size_t>(p) * call.count * element, input(all[static_cast<std::size_t>(p)]),
               element, index * call.count, call.count);
        break;
      case Kind::broadcast: tile(out, input(all[static_cast<std::size_t>(call.root)]), element, 0, call.count); break;
      case Kind::pass_on:
        tile(out, input(all[(index + static_cast<std::size_t>(size) - 1) % static_cast<std::size_t>(size)]), element, 0,
             call.count);
        break;
    }
  }

  /// Returns arbitrary finite numbers, so that the order of additions affects the result.
  static void make_noise(char* to, ncclDataType_t type, std::size_t count, std::mt19937_64& random) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t x = random();
      const auto exponent = static_cast<std::uint32_t>(x >> 40 & 7);
      if (type == ncclFloat32) {
        const std::uint32_t bits = (static_cast<std::uint32_t>(x) & 0x807fffffu) | (120 + exponent) << 23;
        std::memcpy(to + 4 * i, &bits, 4);
      } else {
        const auto bits = static_cast<std::uint16_t>(type == ncclFloat16 ? (x & 0x83ffu) | (10 + exponent) << 10
                                                                         : (x & 0x807fu) | (120 + exponent) << 7);
        std::memcpy(to + 2 * i, &bits, 2);
      }
    }
  }

  Captured capture(const Plan& plan, const Graph& graph) {
    Captured captured;
    captured.graphs.resize(team_.mine.size());
    for (auto& instances : captured.instances) instances.resize(team_.mine.size());
    const auto stream_of = [&](Rank& rank, int number) { return rank.streams[static_cast<std::size_t>(number)]; };
    team_.each([&](Rank& rank, std::size_t i) {
      check(cudaStreamBeginCapture(stream_of(rank, graph.stream), cudaStreamCaptureModeThreadLocal),
            "cudaStreamBeginCapture");
      if (graph.second == graph.stream) return;
      check(cudaEventRecord(arenas_[i].events[0], stream_of(rank, graph.stream)), "cudaEventRecord");
      check(cudaStreamWaitEvent(stream_of(rank, graph.second), arenas_[i].events[0], 0), "cudaStreamWaitEvent");
    });
    for (const int number : graph.calls) {
      const Call& call = plan.calls[static_cast<std::size_t>(number)];
      team_.each([&](Rank& rank, std::size_t i) {
        if (call.in_place || call.count == 0) return;
        int size = 0;
        const int index = index_in(call, rank, size);
        const BufferOffsets offsets = offsets_of(call, rank.rank, index, size);
        check(cudaMemsetAsync(memory_of(call, arenas_[i]) + offsets.receive, 0x6e,
                              call.receive_count(size) * bytes_of(call.type), stream_of(rank, call.stream)),
              "cudaMemsetAsync");
      });
      issue_alone(call, "captured");
    }
    team_.each([&](Rank& rank, std::size_t i) {
      if (graph.second != graph.stream) {
        check(cudaEventRecord(arenas_[i].events[1], stream_of(rank, graph.second)), "cudaEventRecord");
        check(cudaStreamWaitEvent(stream_of(rank, graph.stream), arenas_[i].events[1], 0), "cudaStreamWaitEvent");
      }
      check(cudaStreamEndCapture(stream_of(rank, graph.stream), &captured.graphs[i]), "cudaStreamEndCapture");
    });
    // Only after all captures of this thread have ended, because CUDA does not allow it earlier.
    team_.each([&](Rank&, std::size_t i) {
      for (auto& instances : captured.instances) {
        check(cudaGraphInstantiate(&instances[i], captured.graphs[i], 0), "cudaGraphInstantiate");
        check(cudaGraphUpload(instances[i], arenas_[i].copies), "cudaGraphUpload");
      }
      check(cudaStreamSynchronize(arenas_[i].copies), "cudaGraphUpload");
    });
    if (team_.first()) ++team_.shared.counted[kGraphs];
    return captured;
  }

  void around(const Item& item) {
    team_.each([&](Rank& rank, std::size_t i) {
      const cudaStream_t stream = rank.streams[static_cast<std::size_t>(item.stream)];
      if (item.action == Item::Action::order) {
        const cudaEvent_t event = arenas_[i].events[2 + next_event_++ % 60];
        check(cudaEventRecord(event, stream), "cudaEventRecord");
        check(cudaStreamWaitEvent(rank.streams[static_cast<std::size_t>(item.second)], event, 0),
              "cudaStreamWaitEvent");
      } else if (habits_() % 2) {
        const auto microseconds = reinterpret_cast<void*>(static_cast<std::uintptr_t>(habits_() % 300));
        if (item.action == Item::Action::delay)
          check(cudaLaunchHostFunc(stream, nap, microseconds), "cudaLaunchHostFunc");
        else
          nap(microseconds);
      }
    });
  }

  void replay(const Item& item, const Captured& captured) {
    team_.doing("round %llu: replaying graph %d, instance %d", (unsigned long long)round_, item.graph, item.instance);
    team_.each([&](Rank& rank, std::size_t i) {
      const cudaStream_t stream = rank.streams[static_cast<std::size_t>(item.stream)];
      // Wait for this graph, because its next replay reads its output. Other graphs may overlap.
      const cudaEvent_t before = arenas_[i].replayed[item.graph];
      check(cudaStreamWaitEvent(stream, before, 0), "cudaStreamWaitEvent");
      check(cudaGraphLaunch(captured.instances[item.instance][i], stream), "cudaGraphLaunch");
      check(cudaEventRecord(before, stream), "cudaEventRecord");
    });
    if (team_.first()) ++team_.shared.counted[kReplays];
  }

  void round() {
    team_.doing("round %llu", (unsigned long long)round_);
    const Plan plan = draw_plan(random_, team_.ranks, layouts_, {alltoall_ != nullptr, settings_.has_windows});
    team_.each([&](Rank& rank, std::size_t i) {
      Arena& arena = arenas_[i];
      std::memset(arena.image, kUntouched, plan.used_bytes);
      std::memset(arena.expected.data(), kUntouched, plan.used_bytes);
      for (const Call& call : plan.calls) lay_out(call, rank, arena);
      check(cudaMemcpyAsync(arena.memory, arena.image, plan.used_bytes, cudaMemcpyHostToDevice, arena.copies),
            "copying there");
      if (settings_.has_windows)
        check(cudaMemcpyAsync(arena.registered, arena.image, plan.used_bytes, cudaMemcpyHostToDevice, arena.copies),
              "copying there");
      check(cudaStreamSynchronize(arena.copies), "copying there");
    });
    std::vector<Captured> captured;
    for (const Graph& graph : plan.graphs) captured.push_back(capture(plan, graph));
    for (const Item& item : plan.items) {
      switch (item.action) {
        case Item::Action::call: {
          const Call& call = plan.calls[static_cast<std::size_t>(item.calls[0])];
          for (int k = 0; k < call.times; ++k) issue_alone(call, "alone");
          break;
        }
        case Item::Action::group:
          check(ncclGroupStart(), "ncclGroupStart");
          for (const int number : item.calls) issue_alone(plan.calls[static_cast<std::size_t>(number)], "in a group");
          check(ncclGroupEnd(), "ncclGroupEnd");
          break;
        case Item::Action::replay: replay(item, captured[static_cast<std::size_t>(item.graph)]); break;
        default: around(item);
      }
    }
    team_.doing("round %llu: waiting for the GPU; last: %s", (unsigned long long)round_,
                plan.calls.empty() ? "" : name(plan.calls.back().kind));
    team_.finish("running");
    if (round_ == settings_.plant_in_round && team_.first() && !plan.calls.empty()) {
      check(cudaSetDevice(0), "cudaSetDevice");
      const Call& struck = plan.calls[0];
      // On the stream of the copy back, because the copy does not wait for other streams.
      check(cudaMemsetAsync(memory_of(struck, arenas_[0]) + struck.at + struck.bytes / 2, 0x11, 1, arenas_[0].copies),
            "planting");
    }
    compare(plan);
    for (Captured& one : captured)
      team_.each([&](Rank&, std::size_t i) {
        for (auto& instances : one.instances) check(cudaGraphExecDestroy(instances[i]), "cudaGraphExecDestroy");
        check(cudaGraphDestroy(one.graphs[i]), "cudaGraphDestroy");
      });
    if (team_.first()) ++team_.shared.counted[kRounds];
  }

  void compare(const Plan& plan) {
    bool noisy = false;
    team_.each([&](Rank& rank, std::size_t i) {
      Arena& arena = arenas_[i];
      for (const Call& call : plan.calls)
        if (lies_in_window(call))
          check(cudaMemcpyAsync(arena.memory + call.at, arena.registered + call.at, call.bytes,
                                cudaMemcpyDeviceToDevice, arena.copies),
                "copying together");
      check(cudaMemcpyAsync(arena.back, arena.memory, plan.used_bytes, cudaMemcpyDeviceToHost, arena.copies),
            "copying back");
      check(cudaStreamSynchronize(arena.copies), "copying back");
      std::uint64_t hash = 0;
      for (const Call& call : plan.calls) {
        if (call.is_noisy) {
          int size = 0;
          const int index = index_in(call, rank, size);
          const BufferOffsets offsets = offsets_of(call, rank.rank, index, size);
          const std::size_t bytes = call.count * bytes_of(call.type);
          const std::uint64_t this_one = hash_of(arena.back + offsets.receive, bytes);
          if (hash != 0 && hash != this_one)
            wrong(team_.shared, "round %llu rank %d: the same all_reduce gave two results (%zu bytes)",
                  (unsigned long long)round_, rank.rank, bytes);
          hash = this_one;
          noisy = true;
          std::memcpy(&arena.expected[offsets.receive], arena.back + offsets.receive, bytes);
        }
        compare(call, rank, arena);
      }
      if (noisy) team_.shared.hashes[rank.rank].store(hash);
    });
    if (!noisy) return;
    team_.barrier();
    if (team_.first())
      for (int r = 1; r < team_.ranks; ++r)
        if (team_.shared.hashes[r].load() != team_.shared.hashes[0].load())
          wrong(team_.shared, "round %llu: ranks 0 and %d have different results of one all_reduce",
                (unsigned long long)round_, r);
  }

  void compare(const Call& call, const Rank& rank, const Arena& arena) {
    const char* const got = arena.back + call.at;
    const char* const expected = &arena.expected[call.at];
    if (std::memcmp(got, expected, call.bytes) == 0) return;
    std::size_t first = 0, count = 0;
    for (std::size_t b = 0; b < call.bytes; ++b)
      if (got[b] != expected[b] && count++ == 0) first = b;
    int size = 0;
    const int index = index_in(call, rank, size);
    const BufferOffsets offsets = offsets_of(call, rank.rank, index, size);
    wrong(team_.shared,
          "seed %llu round %llu rank %d (%d of %d of communicator %d): %s %s %s count %zu root %d times %d%s stream "
          "%d: %zu bytes differ, the first at %zu of its region "
          "(send at %zu, result at %zu, %zu bytes in all): got %02x, expected %02x",
          (unsigned long long)settings_.seed, (unsigned long long)round_, rank.rank, index, size, call.communicator,
          name(call.kind), name(call.type), name(call.op), call.count, call.root, call.times,
          call.in_place ? " in place" : "", call.stream, count, first, offsets.send - call.at,
          offsets.receive - call.at, call.bytes, got[first] & 0xff, expected[first] & 0xff);
  }

  Team& team_;
  MixSettings settings_;
  std::mt19937_64 random_;  // equal on every rank
  std::mt19937_64 habits_;  // different on every rank
  AllToAll alltoall_ = nullptr;
  Windows windows_;
  std::vector<Arena> arenas_;
  Layout layouts_[kCommunicators] = {};
  std::vector<ncclComm_t> communicators_[kCommunicators];
  std::vector<ncclWindow_t> registered_[kCommunicators];
  std::uint64_t round_ = 0;
  unsigned next_event_ = 0;
};

}  // namespace

void run_mix(Team& team, const MixSettings& settings) { Mix(team, settings).run(); }

void print_mix_summary(const Shared& shared, double seconds) {
  const auto count = [&](int i) { return (unsigned long long)shared.counted[i].load(); };
  std::printf("%.1f s: %llu rounds;", seconds, count(kRounds));
  for (int k = 0; k < kKinds; ++k) std::printf(" %s %llu,", name(static_cast<Kind>(k)), count(k));
  std::printf(" graphs %llu, replays %llu, communicators remade %llu times; wrong %llu\n", count(kGraphs),
              count(kReplays), count(kRemade), (unsigned long long)shared.wrong.load());
  std::fflush(stdout);
}

}  // namespace stress
