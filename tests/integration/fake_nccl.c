// A libnccl.so.2 that makes communicators of nothing. BLOCKING: what its file of settings says of NCCL_COMM_BLOCKING.
// It has two ranks, gathers nothing, and writes down what is to be gathered.
#define _GNU_SOURCE
#include <stdio.h>
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

int ncclCommCount(void* communicator, int* ranks) {
  (void)communicator;
  *ranks = 2;
  return 0;
}

int ncclCommUserRank(void* communicator, int* rank) {
  (void)communicator;
  *rank = 0;
  return 0;
}

int ncclMemAlloc(void** memory, size_t bytes) {
  *memory = calloc(bytes, 1);
  return *memory == NULL;
}

int ncclGroupStart(void) { return 0; }
int ncclGroupEnd(void) { return 0; }

int ncclAllGather(const void* own, void* all, size_t count, int type, void* communicator, void* stream) {
  (void)communicator;
  FILE* file = fopen("gathered", "a");
  fprintf(file, "%d %zu bytes of type %d on stream %p\n", own == all, count, type, stream);
  return fclose(file);
}
