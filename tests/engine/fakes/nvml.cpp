// A libnvidia-ml.so.1 with one GPU, "0000:0f:00", on which this process uses 512 MiB and another process 64 MiB.
// OLD_NAME: it numbers processes differently and sees only one. BARE: an old version that reports only the GPU's clock.
// DEAD: its driver does not answer.
#include <cstdio>
#include <cstring>

#include <unistd.h>

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
  *state = link == 3 ? 0 : 1;  // one of 18 links is down
  return link < 18 ? 0 : 2;
}

struct Process {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned instances[2];
};
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, Process* processes) {
#ifdef OLD_NAME
  if (*count < 1) return 7;
  *count = 1;
  processes[0] = {4000000000, 300ull << 20, {}};
#else
  if (*count < 2) return 7;  // NVML_ERROR_INSUFFICIENT_SIZE
  *count = 2;
  processes[0] = {4000000000, 64ull << 20, {}};
  processes[1] = {static_cast<unsigned>(getpid()), 512ull << 20, {}};
#endif
  return 0;
}
#endif
}
