// A libnvidia-ml.so.1 with three GPUs: 0000:0a:00.0 and 0000:0b:00.0 are joined by NVLink, 0000:0c:00.0 reaches both over PCI
// Express. It answers only while somebody has it open. DEAD: its driver does not answer. OLD: it knows nothing of peers.
#include <cstdint>
#include <cstring>
#include <initializer_list>

static int users = 0;

extern "C" {

int nvmlInit_v2() {
#ifdef DEAD
  return 9;  // NVML_ERROR_DRIVER_NOT_LOADED
#else
  ++users;
  return 0;
#endif
}

int nvmlShutdown() {
  --users;
  return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** handle) {
  if (users < 1) return 1;  // NVML_ERROR_UNINITIALIZED
  for (const char* known : {"0000:0a:00.0", "0000:0b:00.0", "0000:0c:00.0"}) {
    if (std::strcmp(bus_id, known) != 0) continue;
    *handle = reinterpret_cast<void*>(static_cast<std::uintptr_t>(known[6]));
    return 0;
  }
  return 6;  // NVML_ERROR_NOT_FOUND
}

#ifndef OLD
int nvmlDeviceGetP2PStatus(void* gpu, void* other, int capability, int* status) {
  constexpr int kNvlink = 2;
  const void* const apart = reinterpret_cast<void*>(static_cast<std::uintptr_t>('c'));
  *status = capability == kNvlink && (gpu == apart || other == apart) ? 5 : 0;  // NVML_P2P_STATUS_NOT_SUPPORTED
  return 0;
}
#endif

}  // extern "C"
