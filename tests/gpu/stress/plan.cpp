#include "plan.hpp"

#include <algorithm>

namespace stress {
namespace {

constexpr std::size_t kWhole = 16;  // elements, of any type, are a multiple of 16 bytes

int size_of(Layout layout, int ranks) { return static_cast<int>(communicator_ranks(layout, ranks, 0).size()); }

class Drawer {
 public:
  Drawer(std::mt19937_64& random, int ranks, const Layout (&layouts)[kCommunicators], Abilities abilities)
      : random_(random), ranks_(ranks), layouts_(layouts), abilities_(abilities) {}

  Plan draw() {
    room_ = one_in(6) ? kArenaBytes : std::size_t{1} << (20 + below(4));
    if (one_in(3)) draw_graphs();
    const int steps = 5 + below(30);
    for (int i = 0; i < steps; ++i) {
      if (one_in(8)) around();
      if (one_in(5))
        group();
      else if (one_in(30))
        noisy();
      else
        single();
      if (!plan_.graphs.empty() && one_in(3)) replay();
    }
    while (!plan_.graphs.empty() && one_in(2)) replay();
    for (std::size_t g = 0; g < plan_.graphs.size(); ++g)
      if (plan_.graphs[g].replays == 0) replay_of(static_cast<int>(g));
    return std::move(plan_);
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  bool one_in(int n) { return below(n) == 0; }
  int stream_of(int communicator) { return communicator * kStreamsOfOne + below(kStreamsOfOne); }

  std::size_t draw_bytes() {
    switch (below(8)) {
      case 0: return 0;
      case 1: return 1 + below(64);
      case 2: return (std::size_t{1} << below(24)) - 1 + below(3);
      case 3: return std::size_t{1} << below(24);
      default: return std::size_t(1 + below(255)) << below(one_in(4) ? 16 : 11);
    }
  }

  Call draw_call(int communicator) {
    Call call;
    call.communicator = communicator;
    call.stream = stream_of(communicator);
    const int size = size_of(layouts_[communicator], ranks_);
    constexpr Kind often[] = {Kind::all_reduce, Kind::all_reduce,     Kind::all_gather, Kind::reduce_scatter,
                              Kind::broadcast,  Kind::alltoall,       Kind::pass_on,    Kind::all_reduce,
                              Kind::all_gather, Kind::reduce_scatter, Kind::broadcast,  Kind::alltoall};
    do call.kind = often[below(12)];
    while (call.kind == Kind::alltoall && !abilities_.has_alltoall);
    constexpr ncclDataType_t types[] = {ncclFloat16, ncclBfloat16, ncclFloat32, ncclFloat16, ncclBfloat16,
                                        ncclFloat32, ncclFloat16,  ncclInt8,    ncclInt32,   ncclFloat64};
    call.type = types[below(10)];
    constexpr ncclRedOp_t ops[] = {ncclSum, ncclProd, ncclMin, ncclMax, ncclAvg};
    call.op = ops[below(5)];
    if (call.op == ncclAvg && (size & (size - 1)) != 0) call.op = ncclSum;
    call.root = below(size);
    const bool parted =
        call.kind == Kind::all_gather || call.kind == Kind::reduce_scatter || call.kind == Kind::alltoall;
    call.count = std::min<std::size_t>(draw_bytes(), 8u << 20) / bytes_of(call.type) /
                 static_cast<std::size_t>(parted ? size : 1);
    if (one_in(12)) call.count = 1;
    call.in_place = one_in(2) && call.kind != Kind::alltoall && call.kind != Kind::pass_on;
    call.unaligned = one_in(4) ? 1 + below(2) : 0;
    call.salt = static_cast<std::uint32_t>(random_());
    return call;
  }

  /// Adds a call and returns its number, or -1 if the arena has no room.
  int add(Call call) {
    if (abilities_.has_windows) {
      // NCCL 2.28.9's own window kernels give wrong data if a rank's part is not a multiple of some bytes.
      call.unaligned = 0;
      call.count = (call.count + kWhole - 1) / kWhole * kWhole;
    }
    const auto size = static_cast<std::size_t>(size_of(layouts_[call.communicator], ranks_));
    const std::size_t shift = static_cast<std::size_t>(call.unaligned * (ranks_ + 1)) * bytes_of(call.type);
    call.bytes =
        (call.count * 2 * size * bytes_of(call.type) + 2 * shift + 5 * kGuardBytes) / kGuardBytes * kGuardBytes;
    if (plan_.used_bytes + call.bytes > room_) return -1;
    call.at = plan_.used_bytes;
    plan_.used_bytes += call.bytes;
    plan_.calls.push_back(call);
    return static_cast<int>(plan_.calls.size()) - 1;
  }

  void single() {
    Call call = draw_call(below(kCommunicators));
    if (one_in(6)) make_sum_in_place(call, 2 + below(4));
    if (const int number = add(call); number >= 0) plan_.items.push_back({Item::Action::call, {number}});
  }

  /// After each call all ranks have equal values, so the next call multiplies by the number of ranks: exact in float.
  void make_sum_in_place(Call& call, int times) {
    call.kind = Kind::all_reduce;
    call.type = ncclFloat32;
    call.op = ncclSum;
    call.in_place = true;
    call.times = times;
  }

  void group() {
    Item item;
    item.action = Item::Action::group;
    const int calls = 1 + below(6);
    const int only = one_in(2) ? below(kCommunicators) : -1;
    for (int i = 0; i < calls; ++i)
      if (const int number = add(draw_call(only >= 0 ? only : below(kCommunicators))); number >= 0)
        item.calls.push_back(number);
    plan_.items.push_back(item);
  }

  void noisy() {
    Call call = draw_call(0);
    call.kind = Kind::all_reduce;
    constexpr ncclDataType_t types[] = {ncclFloat16, ncclBfloat16, ncclFloat32};
    call.type = types[below(3)];
    call.op = ncclSum;
    call.in_place = false;
    call.is_noisy = true;
    for (const Call& other : plan_.calls)
      if (other.is_noisy) return;
    const int first = add(call);
    call.stream = stream_of(0);
    const int again = first < 0 ? -1 : add(call);
    if (first >= 0) plan_.items.push_back({Item::Action::call, {first}});
    if (again >= 0) plan_.items.push_back({Item::Action::call, {again}});
  }

  void around() {
    Item item;
    item.stream = below(kStreams);
    item.second = below(kStreams);
    item.action = one_in(2) ? Item::Action::order : one_in(2) ? Item::Action::delay : Item::Action::nap;
    plan_.items.push_back(item);
  }

  void draw_graphs() {
    const int graphs = 1 + below(kMaxGraphs);
    for (int g = 0; g < graphs; ++g) {
      Graph graph;
      graph.communicator = below(kCommunicators);
      graph.stream = stream_of(graph.communicator);
      graph.second = stream_of(graph.communicator);
      const int calls = 1 + below(6);
      for (int i = 0; i < calls; ++i) {
        Call call = draw_call(graph.communicator);
        call.stream = one_in(2) ? graph.stream : graph.second;
        if (one_in(2))
          make_sum_in_place(call, 1);
        else if (call.in_place && (call.kind == Kind::all_reduce || call.kind == Kind::reduce_scatter))
          call.in_place = false;
        if (const int number = add(call); number >= 0) graph.calls.push_back(number);
      }
      if (!graph.calls.empty()) plan_.graphs.push_back(graph);
    }
  }

  void replay() { replay_of(below(static_cast<int>(plan_.graphs.size()))); }

  void replay_of(int number) {
    Graph& graph = plan_.graphs[static_cast<std::size_t>(number)];
    if (graph.replays == 6) return;
    ++graph.replays;
    Item item;
    item.action = Item::Action::replay;
    item.graph = number;
    item.instance = below(2);
    item.stream = stream_of(graph.communicator);
    plan_.items.push_back(item);
    for (const int call : graph.calls)
      if (Call& one = plan_.calls[static_cast<std::size_t>(call)]; one.kind == Kind::all_reduce && one.in_place)
        one.times = graph.replays;
  }

  std::mt19937_64& random_;
  int ranks_;
  const Layout (&layouts_)[kCommunicators];
  Abilities abilities_;
  std::size_t room_ = 0;
  Plan plan_;
};

}  // namespace

std::vector<int> communicator_ranks(Layout layout, int ranks, int rank) {
  std::vector<int> found;
  for (int r = 0; r < ranks; ++r)
    if (layout != Layout::parity || r % 2 == rank % 2) found.push_back(r);
  if (layout == Layout::reversed) std::reverse(found.begin(), found.end());
  return found;
}

BufferOffsets offsets_of(const Call& call, int rank, int index, int size) {
  const std::size_t element = bytes_of(call.type);
  const std::size_t shift = static_cast<std::size_t>(call.unaligned * (rank + 1)) * element;
  const std::size_t own = static_cast<std::size_t>(index) * call.count * element;
  const std::size_t first = call.at + kGuardBytes + shift;
  if (call.in_place) {
    if (call.kind == Kind::all_gather) return {first + own, first};
    if (call.kind == Kind::reduce_scatter) return {first, first + own};
    return {first, first};
  }
  const std::size_t send_bytes = call.send_count(size) * element;
  return {first, (first + send_bytes + 2 * kGuardBytes) / kGuardBytes * kGuardBytes + shift};
}

Plan draw_plan(std::mt19937_64& random, int ranks, const Layout (&layouts)[kCommunicators], Abilities abilities) {
  return Drawer(random, ranks, layouts, abilities).draw();
}

}  // namespace stress
