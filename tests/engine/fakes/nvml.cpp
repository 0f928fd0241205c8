// A libnvidia-ml.so.1 with one GPU, "0000:0f:00". BARE: an old one that knows no more than the GPU's clock. DEAD: one whose
// driver does not answer.
#include <cstdio>
#include <cstring>

extern "C" {

int nvmlInit_v2() {
#ifdef DEAD
  return 9;  // NVML_ERROR_DRIVER_NOT_LOADED
#else
  return 0;
#endif
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** handle) {
  static int gpu;
  *handle = &gpu;
  return std::strcmp(bus_id, "0000:0f:00") == 0 ? 0 : 6;  // NVML_ERROR_NOT_FOUND
}

int nvmlDeviceGetClockInfo(void*, int which, unsigned* mhz) {
  *mhz = 1830;
  return which == 1 ? 0 : 2;
}

#ifndef BARE
int nvmlShutdown() { return 0; }

int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::snprintf(text, length, "580.95.05");
  return 0;
}

int nvmlDeviceGetMaxClockInfo(void*, int which, unsigned* mhz) {
  *mhz = 1980;
  return which == 1 ? 0 : 2;
}

#ifdef OLD_NAME
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) {
#else
int nvmlDeviceGetCurrentClocksEventReasons(void*, unsigned long long* reasons) {
#endif
  *reasons = 0x4 | 0x40;
  return 0;
}

int nvmlDeviceGetUUID(void*, char* text, unsigned length) {
  std::snprintf(text, length, "GPU-00000000-0000-0000-0000-000000000001");
  return 0;
}

int nvmlDeviceGetNvLinkState(void*, unsigned link, unsigned* state) {
  *state = link == 3 ? 0 : 1;  // one of 18 is down
  return link < 18 ? 0 : 2;
}

int nvmlDeviceGetMigMode(void*, unsigned* current, unsigned* pending) {
  *current = *pending = 1;
  return 0;
}
#endif
}
