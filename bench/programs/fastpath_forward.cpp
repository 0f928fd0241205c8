// Measures the cost of a call that the fast path delegates to NCCL: calls the same function of a fake NCCL directly and
// through libbusbw_nccl.so, alternating.
//
// Usage: fastpath_forward REAL LIBRARY SITUATION:FUNCTION...
//
// REAL is the fake NCCL, LIBRARY is libbusbw_nccl.so.
//
// Prints one line per argument: function, situation, then lower quartile, median and upper quartile over rounds, in ns,
// for direct calls, for delegated calls and for their difference. SITUATIONs:
//   one     a communicator of one rank, which has no fast path
//   fast    a communicator of two ranks, with a fast path if the library supports it
//   turns   the communicators of both ranks, alternating, so that no call uses the communicator of the previous one
//   many    sixteen communicators of eight pairs of ranks, alternating
//   group   as `fast`, with each call in its own group
#include <dlfcn.h>
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int kRounds = 201;
constexpr int kCalls = 20000;  // per round
// Element count at which no table selects the fast path.
constexpr std::size_t kCount = std::size_t{1} << 32;
constexpr int kHalf = 6;  // ncclFloat16

struct UniqueId {
  unsigned char bytes[128];
};
using Comm = std::uint64_t;
/// Function with the arguments of an all-reduce. Every function is called with these arguments, also if it has others.
using Collective = int (*)(const void*, void*, std::size_t, int, int, Comm, void*, void*);
using Group = int (*)();

void* open_or_die(const char* file) {
  if (void* const handle = dlopen(file, RTLD_NOW | RTLD_LOCAL)) return handle;
  fmt::print(stderr, "{}\n", dlerror());
  std::exit(3);
}

template <class Function>
Function find_or_die(void* library, const char* name) {
  if (void* const function = dlsym(library, name)) return reinterpret_cast<Function>(function);
  fmt::print(stderr, "{}\n", dlerror());
  std::exit(3);
}

/// One side of a comparison: direct calls or calls through the fast path.
struct Side {
  Collective call;
  Group group_start = nullptr;  // null: no group
  Group group_end = nullptr;
  std::vector<Comm> comms;  // used in turn
};

Side make_side(void* library, const std::string& function, const std::string& situation, std::vector<Comm> comms) {
  Side side{find_or_die<Collective>(library, function.c_str()), nullptr, nullptr, std::move(comms)};
  if (situation == "group") {
    side.group_start = find_or_die<Group>(library, "ncclGroupStart");
    side.group_end = find_or_die<Group>(library, "ncclGroupEnd");
  }
  return side;
}

/// Creates communicators through the library, which may add a fast path. The real library accepts them too.
std::vector<Comm> make_comms(void* library, const std::string& situation) {
  std::vector<Comm> comms(situation == "many" ? 16 : 2);
  if (situation == "one") {
    find_or_die<int (*)(Comm*, int, UniqueId, int)>(library, "ncclCommInitRank")(&comms[0], 1, UniqueId{}, 0);
    return {comms[0]};
  }
  for (std::size_t i = 0; i < comms.size(); i += 2)
    find_or_die<int (*)(Comm*, int, const int*)>(library, "ncclCommInitAll")(&comms[i], 2, nullptr);
  if (situation == "fast" || situation == "group") comms.resize(1);
  return comms;
}

double measure_ns_per_call(const Side& side) {
  static char buffer[8];
  const auto start = std::chrono::steady_clock::now();
  if (side.group_start != nullptr) {
    for (int i = 0; i < kCalls; ++i) {
      side.group_start();
      side.call(buffer, buffer, kCount, kHalf, 0, side.comms[0], nullptr, nullptr);
      side.group_end();
    }
  } else {
    for (int i = 0, comm = 0; i < kCalls; ++i) {
      side.call(buffer, buffer, kCount, kHalf, 0, side.comms[static_cast<std::size_t>(comm)], nullptr, nullptr);
      if (++comm == static_cast<int>(side.comms.size())) comm = 0;
    }
  }
  const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
  return elapsed.count() / kCalls;
}

std::array<double, 3> quartiles(std::vector<double> values) {
  std::ranges::sort(values);
  const auto quantile = [&](double fraction) {
    return values[static_cast<std::size_t>(fraction * double(values.size() - 1))];
  };
  return {quantile(0.25), quantile(0.5), quantile(0.75)};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  setenv("BUSBW_FASTPATH_NCCL", argv[1], 1);
  void* const real = open_or_die(argv[1]);
  void* const library = open_or_die(argv[2]);
  for (int i = 3; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto colon = argument.find(':');
    if (colon == std::string::npos) return 2;
    const std::string situation = argument.substr(0, colon), function = argument.substr(colon + 1);
    const auto comms = make_comms(library, situation);
    const Side direct = make_side(real, function, situation, comms);
    const Side delegated = make_side(library, function, situation, comms);
    std::vector<double> direct_ns, delegated_ns, difference_ns;
    measure_ns_per_call(direct);  // warm-up
    measure_ns_per_call(delegated);
    for (int round = 0; round < kRounds; ++round) {
      direct_ns.push_back(measure_ns_per_call(direct));
      delegated_ns.push_back(measure_ns_per_call(delegated));
      difference_ns.push_back(delegated_ns.back() - direct_ns.back());
    }
    fmt::print("{} {}", function, situation);
    for (const auto& values : {direct_ns, delegated_ns, difference_ns})
      for (const double value : quartiles(values)) fmt::print(" {:.2f}", value);
    fmt::print("\n");
  }
}
