// What a call costs that the fast path hands over: the same function of a library that stands for NCCL, called directly and
// through libbusbw_nccl.so, in turns.
//
// Usage: fastpath_forward REAL LIBRARY FUNCTION...     a line for each function: its name, then for direct and for handed-over
// calls the lower quartile, median and upper quartile over rounds, in ns, and the same of what a call costs more in a round
#include <dlfcn.h>
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

namespace {

constexpr int kRounds = 201;
constexpr int kCalls = 20000;
// A size that no table gives to the fast path.
constexpr std::size_t kCount = std::size_t{1} << 32;

struct UniqueId {
  unsigned char bytes[128];
};
/// As an all-reduce has them; functions with more arguments take what there is.
using Collective = int (*)(const void*, void*, std::size_t, int, int, std::uint64_t, void*, void*);
using Join = int (*)(std::uint64_t*, int, UniqueId, int);

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

double ns_per_call(Collective call, std::uint64_t comm) {
  static char buffer[8];
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) call(buffer, buffer, kCount, 7, 0, comm, nullptr, nullptr);
  const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
  return elapsed.count() / kCalls;
}

std::array<double, 3> quartiles(std::vector<double> values) {
  std::ranges::sort(values);
  const auto at = [&](double part) { return values[static_cast<std::size_t>(part * double(values.size() - 1))]; };
  return {at(0.25), at(0.5), at(0.75)};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  setenv("BUSBW_FASTPATH_NCCL", argv[1], 1);
  void* const real = open_or_die(argv[1]);
  void* const library = open_or_die(argv[2]);
  std::uint64_t comm = 0;
  find_or_die<Join>(library, "ncclCommInitRank")(&comm, 1, UniqueId{}, 0);
  for (int i = 3; i < argc; ++i) {
    const auto direct = find_or_die<Collective>(real, argv[i]);
    const auto handed_over = find_or_die<Collective>(library, argv[i]);
    std::vector<double> first, second, more;
    ns_per_call(direct, comm);
    ns_per_call(handed_over, comm);
    for (int round = 0; round < kRounds; ++round) {
      first.push_back(ns_per_call(direct, comm));
      second.push_back(ns_per_call(handed_over, comm));
      more.push_back(second.back() - first.back());
    }
    fmt::print("{}", argv[i]);
    for (const auto& values : {first, second, more})
      for (const double value : quartiles(values)) fmt::print(" {:.2f}", value);
    fmt::print("\n");
  }
}
