// A libnccl.so.2 that makes communicators of nothing. BLOCKING: what its file of settings says of NCCL_COMM_BLOCKING.
#define _GNU_SOURCE
#include <stdlib.h>

struct UniqueId {
  char bytes[128];
};

int ncclGetVersion(int* version) {
  *version = 22809;
  return 0;
}

int ncclCommInitRank(void** communicator, int ranks, struct UniqueId id, int rank) {
  static char made;
  (void)id;
#ifdef BLOCKING
  setenv("NCCL_COMM_BLOCKING", BLOCKING, 1);
#endif
  *communicator = &made + ranks * rank;
  return 0;
}
