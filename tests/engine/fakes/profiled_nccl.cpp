// A library with NCCL's version that calls the `init` of a profiler plugin, as version 7 of the interface.
#include <cstdint>

extern "C" int ncclGetVersion(int* version) {
  *version = VERSION;
  return 0;
}

using Init = int(void**, std::uint64_t, int*, const char*, int, int, int, void*);

extern "C" int initialize(Init* init, void** context, int* mask) {
  const int result = init(context, 1, mask, "a", 1, 2, 0, nullptr);
  return result;  // not a tail call, so that the return address is in this library
}
