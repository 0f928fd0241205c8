// A libcuda.so.1 of a machine where CUDA does not start. DRIVER_VERSION and INIT: what its calls say; HANGS: it says nothing, and
// writes a file when it is first asked.
#include <fcntl.h>
#include <unistd.h>

int cuDriverGetVersion(int* version) {
  *version = DRIVER_VERSION;
  return 0;
}

int cuInit(unsigned flags) {
  (void)flags;
#ifdef HANGS
  close(creat("asked", 0600));
  for (;;) pause();
#endif
  return INIT;
}
