// A fake NCCL for tests of delegated calls. Its results depend on all arguments of a call. VERSION: the version that it
// reports. OLD: it lacks the functions that are newer than 2.18.
#include <cstddef>
#include <cstdint>

namespace {

/// Returns a sum that depends on every value and its position.
template <class... Numbers>
std::uint64_t mixed(Numbers... numbers) {
  std::uint64_t sum = 0;
  ((sum = sum * 31 + static_cast<std::uint64_t>(numbers)), ...);
  return sum;
}

template <class Pointer>
std::uint64_t number(Pointer* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

}  // namespace

extern "C" {

/// Same layout as NCCL's type, which is too large for registers.
struct UniqueId {
  unsigned char bytes[128];
};

int ncclGetVersion(int* version) {
  *version = VERSION;
  return 0;
}
int pncclGetVersion(int* version) {
  *version = VERSION + 1;
  return 0;
}

int ncclCommInitRank(std::uint64_t* comm, int ranks, UniqueId id, int rank) {
  std::uint64_t sum = 0;
  for (const auto byte : id.bytes) sum = sum * 31 + byte;
  *comm = mixed(sum, ranks, rank);
  return 0;
}

int ncclAllReduce(const void* sent, void* received, std::size_t count, int type, int op, void* comm, void* stream) {
  return static_cast<int>(mixed(number(sent), number(received), count, type, op, number(comm), number(stream)) &
                          0x7fffffff);
}

int ncclReduce(const void* sent, void* received, std::size_t count, int type, int op, int root, void* comm,
               void* stream) {
  return static_cast<int>(mixed(number(sent), number(received), count, type, op, root, number(comm), number(stream)) &
                          0x7fffffff);
}

const char* ncclGetErrorString(int result) { return result == 1 ? "unhandled cuda error" : "no error"; }

#ifndef OLD
/// Takes more arguments than NCCL's function of this name: it uses all argument registers and the stack.
double ncclGatherConfig(double a, double b, double c, double d, double e, double f, double g, double h, int i, int j,
                        int k, int l, int m, int n, int o, double p) {
  return ((((((((a * 2 + b) * 2 + c) * 2 + d) * 2 + e) * 2 + f) * 2 + g) * 2 + h) * 2 + p) * 1024 +
         static_cast<double>(mixed(i, j, k, l, m, n, o) % 1000);
}

int ncclOfTomorrow(int answer) { return answer + 1; }
#endif
}
