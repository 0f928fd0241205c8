// A fake NCCL with every function of fastpath/forward/symbols.txt. Each function returns a different number.
#include "fakes/number_of.hpp"

#define FORWARDED_FUNCTION(index, name, since) \
  extern "C" int numbered_##index() asm(name); \
  extern "C" int numbered_##index() { return number_of(name); }
#include FASTPATH_EXPORTS

extern "C" int ncclGetVersion(int* version) {
  *version = 23203;
  return 0;
}
