// A libnvidia-ml.so.1 of two GPUs behind one NVSwitch, so that the real Python package can be asked on any machine.
// Structures and numbers as in nvml.h. What is not here the package reports as not found.
#include <stdio.h>
#include <string.h>

enum { kGpus = 2, kLinks = 18, kInvalidArgument = 2, kNotSupported = 3 };

typedef struct {
  char bus_id_legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
} PciInfo;

typedef struct {
  unsigned field, scope;
  long long timestamp, latency;
  unsigned type;
  int result;
  union {
    double d;
    unsigned u;
    unsigned long long ull;
  } value;
} FieldValue;

static int index_of(void* handle) { return (int)(long)handle - 1; }

int nvmlInitWithFlags(unsigned flags) { return (int)(flags & 0); }
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
const char* nvmlErrorString(int result) { return result ? "an error of the test" : "success"; }

int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  snprintf(text, length, "580.95.05");
  return 0;
}

int nvmlSystemGetCudaDriverVersion(int* version) {
  *version = 13000;
  return 0;
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = kGpus;
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  *handle = (void*)(long)(index + 1);
  return index < kGpus ? 0 : kInvalidArgument;
}

int nvmlDeviceGetName(void* handle, char* text, unsigned length) {
  snprintf(text, length, "NVIDIA Test %d", index_of(handle));
  return 0;
}

int nvmlDeviceGetPciInfo_v3(void* handle, PciInfo* info) {
  memset(info, 0, sizeof *info);
  snprintf(info->bus_id, sizeof info->bus_id, "00000000:%X:00.0", 0xA1 + index_of(handle));
  return 0;
}

int nvmlDeviceGetMemoryInfo(void* handle, unsigned long long* total_free_used) {
  total_free_used[0] = (80ULL + (unsigned)index_of(handle)) << 30;
  return 0;
}

int nvmlDeviceGetMaxPcieLinkGeneration(void* handle, unsigned* value) { return (*value = 5) && handle ? 0 : 1; }
int nvmlDeviceGetMaxPcieLinkWidth(void* handle, unsigned* value) { return (*value = 16) && handle ? 0 : 1; }
int nvmlDeviceGetCurrPcieLinkWidth(void* handle, unsigned* value) { return (*value = 8) && handle ? 0 : 1; }
int nvmlDeviceGetCurrPcieLinkGeneration(void* handle, unsigned* value) { return (*value = 1) && handle ? 0 : 1; }

int nvmlDeviceGetCpuAffinity(void* handle, unsigned words, unsigned long long* set) {
  memset(set, 0, words * sizeof *set);
  set[0] = 1ULL << 63;  // CPU 63, and on the second GPU also 64 and 65
  if (index_of(handle)) set[1] = 3;
  return 0;
}

int nvmlDeviceGetMemoryAffinity(void* handle, unsigned words, unsigned long long* set, unsigned scope) {
  memset(set, 0, words * sizeof *set);
  set[0] = 1ULL << index_of(handle);
  return scope ? kInvalidArgument : 0;
}

int nvmlDeviceGetMigMode(void* handle, unsigned* current, unsigned* pending) {
  *current = *pending = (unsigned)index_of(handle);
  return 0;
}

int nvmlDeviceGetNvLinkState(void* handle, unsigned link, unsigned* active) {
  *active = link != 3 || index_of(handle) == 0;  // one link of the second GPU is down
  return link < kLinks ? 0 : kInvalidArgument;
}

int nvmlDeviceGetNvLinkVersion(void* handle, unsigned link, unsigned* version) {
  *version = handle && link < kLinks ? 6 : 0;
  return 0;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void* handle, unsigned link, unsigned* type) {
  *type = handle && link < kLinks ? 2 : 255;
  return 0;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* handle, unsigned link, PciInfo* info) {
  memset(info, 0, sizeof *info);
  snprintf(info->bus_id, sizeof info->bus_id, "00000000:07:00.0");
  return handle && link < kLinks ? 0 : kInvalidArgument;
}

int nvmlDeviceGetFieldValues(void* handle, int count, FieldValue* values) {
  for (int each = 0; each < count; ++each) {
    values[each].type = 1;
    values[each].result = handle && values[each].field == 164 ? 0 : kNotSupported;
    values[each].value.u = 26562;
  }
  return 0;
}

int nvmlDeviceGetTopologyCommonAncestor(void* one, void* other, unsigned* level) {
  *level = one == other ? 0 : 50;
  return 0;
}

int nvmlDeviceGetP2PStatus(void* one, void* other, unsigned index, unsigned* status) {
  *status = one != other && index == 3 ? 2 : 0;
  return 0;
}
