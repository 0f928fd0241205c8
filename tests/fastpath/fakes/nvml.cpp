// A fake libnvidia-ml.so.1 with four GPUs. NVLink connects 0000:0a:00.0 and 0000:0b:00.0. 0000:0c:00.0 accesses both
// over PCI Express. 0000:0d:00.0 has links but no write access. Queries fail unless it is initialized. DEAD: the driver
// is not loaded. OLD: it has no function for peers.
#include <cstdint>
#include <cstring>
#include <initializer_list>

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

int nvmlShutdown() {
  --users;
  return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** handle) {
  if (users < 1) return 1;  // NVML_ERROR_UNINITIALIZED
  for (const char* known : {"0000:0a:00.0", "0000:0b:00.0", "0000:0c:00.0", "0000:0d:00.0"}) {
    if (std::strcmp(bus_id, known) != 0) continue;
    *handle = reinterpret_cast<void*>(static_cast<std::uintptr_t>(known[6]));
    return 0;
  }
  return 6;  // NVML_ERROR_NOT_FOUND
}

#ifndef OLD
int nvmlDeviceGetP2PStatus(void* gpu, void* other, int capability, int* status) {
  constexpr int kWrite = 1, kNvlink = 2;
  const auto is_one = [&](char name) {
    void* const handle = reinterpret_cast<void*>(static_cast<std::uintptr_t>(name));
    return gpu == handle || other == handle;
  };
  const bool lacks = (capability == kNvlink && is_one('c')) || (capability == kWrite && is_one('d'));
  *status = lacks ? 5 : 0;  // NVML_P2P_STATUS_NOT_SUPPORTED
  return 0;
}
#endif

}  // extern "C"
