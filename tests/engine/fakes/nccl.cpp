// A library with NCCL's interface that does nothing. VERSION: its reported version. BARE: it has only the functions
// that every collective needs. BROKEN: it lacks one of those. MUTE: it does not report its version.
extern "C" {

int ncclGetVersion(int* version) {
#ifdef MUTE
  static_cast<void>(version);
  return 3;
#else
  *version = VERSION;
  return 0;
#endif
}

int ncclGetUniqueId(void*) { return 0; }
int ncclCommInitRank() { return 0; }
int ncclCommDestroy(void*) { return 0; }
#ifndef BROKEN
int ncclCommAbort(void*) { return 0; }
int ncclGroupEnd() { return 0; }
#endif
int ncclCommGetAsyncError(void*, int*) { return 0; }
const char* ncclGetErrorString(int) { return "an error of the test"; }
int ncclGroupStart() { return 0; }

#ifndef BARE
const char* ncclGetLastError(void*) { return ""; }
int ncclAllReduce() { return 0; }
#endif
}
