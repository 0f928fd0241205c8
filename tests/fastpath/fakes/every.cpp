// A NCCL that has every function of fastpath/forward/symbols.txt, of which each returns a number of its own.
#include "fakes/number_of.hpp"

#define FASTPATH_EXPORT(index, name, since)    \
  extern "C" int numbered_##index() asm(name); \
  extern "C" int numbered_##index() { return number_of(name); }
#include FASTPATH_EXPORTS

extern "C" int ncclGetVersion(int* version) {
  *version = 23203;
  return 0;
}
