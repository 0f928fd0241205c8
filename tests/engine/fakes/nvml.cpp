// A fake libnvidia-ml.so.1. This process uses 512 MiB on the GPU "0000:0f:00", and another process 64 MiB. NVLink
// connects it and 0000:0b:00. 0000:0c:00 accesses both over PCI Express. 0000:0d:00 has links but no write access.
// Queries for a GPU fail unless the library is initialized. OLD_NAME: it numbers processes differently and sees only
// one. BARE: an old version that reports only the GPU's clock. DEAD: its driver does not answer.
#include <cstdint>
#include <cstdio>
#include <cstring>

#include <unistd.h>

extern "C" {

int users = 0;

int nvmlInit_v2() {
#ifdef DEAD
  return 9;  // NVML_ERROR_DRIVER_NOT_LOADED
#else
  ++users;
  return 0;
#endif
}

/// The handle is the last letter of the bus.
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** handle) {
  if (users < 1) return 1;  // NVML_ERROR_UNINITIALIZED
  const bool is_known =
      std::strlen(bus_id) == 10 && std::strncmp(bus_id, "0000:0", 6) == 0 && std::strchr("bcdf", bus_id[6]) != nullptr;
  if (!is_known) return 6;  // NVML_ERROR_NOT_FOUND
  *handle = reinterpret_cast<void*>(static_cast<std::uintptr_t>(bus_id[6]));
  return 0;
}

int nvmlDeviceGetClockInfo(void*, int which, unsigned* mhz) {
  *mhz = 1830;
  return which == 1 ? 0 : 2;
}

#ifndef BARE
int nvmlShutdown() {
  --users;
  return 0;
}

int nvmlDeviceGetP2PStatus(void* gpu, void* peer, int capability, int* status) {
  constexpr int kWrite = 1, kNvlink = 2;
  const auto is_one = [&](char name) {
    void* const handle = reinterpret_cast<void*>(static_cast<std::uintptr_t>(name));
    return gpu == handle || peer == handle;
  };
  const bool lacks = (capability == kNvlink && is_one('c')) || (capability == kWrite && is_one('d'));
  *status = lacks ? 5 : 0;  // NVML_P2P_STATUS_NOT_SUPPORTED
  return 0;
}

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
