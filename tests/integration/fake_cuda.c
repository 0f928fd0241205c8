// A libcuda.so.1 of a machine where CUDA does not start. DRIVER_VERSION and INIT: what its calls say.
int cuDriverGetVersion(int* version) {
  *version = DRIVER_VERSION;
  return 0;
}

int cuInit(unsigned flags) {
  (void)flags;
  return INIT;
}
