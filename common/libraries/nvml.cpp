// NVML calls through function pointers that are loaded at run time.
#include "common/libraries/nvml.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

namespace busbw {
namespace {

// Names and numbers from NVML's public header (nvml.h), which the build does not need.
constexpr int kSuccess = 0;                       // NVML_SUCCESS
constexpr int kClockOfMultiprocessors = 1;        // NVML_CLOCK_SM
constexpr unsigned kLinkActive = 1;               // NVML_FEATURE_ENABLED
constexpr int kAccessCapabilities[] = {0, 1, 2};  // NVML_P2P_CAPS_INDEX_READ, _WRITE, _NVLINK
constexpr int kAccessPossible = 0;                // NVML_P2P_STATUS_OK

constexpr unsigned kMaxLinks = 36;   // more than any GPU has; NVML refuses link numbers that do not exist
constexpr unsigned kTextBytes = 96;  // NVML's limits: 80 for the driver's version, 96 for a UUID
constexpr double kHzPerMhz = 1e6;

struct ThrottleReason {
  unsigned long long bit;
  const char* text;
};

// nvmlClocksEventReasons, without 0x1: the GPU is idle.
constexpr std::array kThrottleReasons{
    ThrottleReason{0x2, "applications clocks setting"},
    ThrottleReason{0x4, "power limit"},
    ThrottleReason{0x8, "hardware slowdown"},
    ThrottleReason{0x10, "sync boost with another GPU"},
    ThrottleReason{0x20, "temperature (software)"},
    ThrottleReason{0x40, "temperature (hardware)"},
    ThrottleReason{0x80, "power brake"},
    ThrottleReason{0x100, "display clock setting"},
};

constexpr unsigned kMaxListedProcesses = 128;
constexpr unsigned long long kNotAvailable = ~0ull;  // NVML_VALUE_NOT_AVAILABLE

/// Sets `function` to the library's symbol `name`, or to null if the library does not have it.
template <class Function>
void load_symbol(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

/// nvmlProcessInfo_t for versions 2 and 3 of the functions. Not in the unnamed namespace, because NvmlFunctions is not.
struct NvmlProcess {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned instances[2];
};

/// NVML functions; null if the library lacks the function. GPU handles are pointers, results are ints.
struct NvmlFunctions {
  void* library;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*gpu_by_bus_id)(const char*, void**) = nullptr;
  int (*clock)(void*, int, unsigned*) = nullptr;
  int (*max_clock)(void*, int, unsigned*) = nullptr;
  int (*clock_event_reasons)(void*, unsigned long long*) = nullptr;
  int (*uuid)(void*, char*, unsigned) = nullptr;
  int (*nvlink_state)(void*, unsigned, unsigned*) = nullptr;
  int (*p2p_status)(void*, void*, int, int*) = nullptr;
  int (*processes)(void*, unsigned*, NvmlProcess*) = nullptr;
  bool is_initialized = false;

  explicit NvmlFunctions(const std::string& file) : library(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (!library) return;
    load_symbol(library, "nvmlInit_v2", init);
    load_symbol(library, "nvmlShutdown", shutdown);
    load_symbol(library, "nvmlSystemGetDriverVersion", driver_version);
    load_symbol(library, "nvmlDeviceGetHandleByPciBusId_v2", gpu_by_bus_id);
    load_symbol(library, "nvmlDeviceGetClockInfo", clock);
    load_symbol(library, "nvmlDeviceGetMaxClockInfo", max_clock);
    load_symbol(library, "nvmlDeviceGetCurrentClocksEventReasons", clock_event_reasons);
    // Drivers before 535 use the old name.
    if (!clock_event_reasons) load_symbol(library, "nvmlDeviceGetCurrentClocksThrottleReasons", clock_event_reasons);
    load_symbol(library, "nvmlDeviceGetUUID", uuid);
    load_symbol(library, "nvmlDeviceGetNvLinkState", nvlink_state);
    load_symbol(library, "nvmlDeviceGetP2PStatus", p2p_status);
    load_symbol(library, "nvmlDeviceGetComputeRunningProcesses_v3", processes);
    is_initialized = init && init() == kSuccess;
  }
  ~NvmlFunctions() {
    if (is_initialized && shutdown) shutdown();
    if (library) dlclose(library);
  }
  NvmlFunctions(const NvmlFunctions&) = delete;
  NvmlFunctions& operator=(const NvmlFunctions&) = delete;
};

namespace {

/// Returns a text that NVML writes. `query(buffer, bytes)` calls the NVML function.
template <class Query>
std::optional<std::string> query_text(Query query) {
  std::array<char, kTextBytes> text{};
  if (query(text.data(), static_cast<unsigned>(text.size() - 1)) != kSuccess) return std::nullopt;
  return std::string(text.data());
}

std::optional<double> query_clock_hz(int (*function)(void*, int, unsigned*), void* gpu) {
  unsigned mhz = 0;
  if (!function || function(gpu, kClockOfMultiprocessors, &mhz) != kSuccess) return std::nullopt;
  return mhz * kHzPerMhz;
}

}  // namespace

std::optional<double> NvmlGpu::clock_hz() const { return query_clock_hz(nvml_->clock, handle_); }
std::optional<double> NvmlGpu::max_clock_hz() const { return query_clock_hz(nvml_->max_clock, handle_); }

std::vector<std::string> NvmlGpu::throttle_reasons() const {
  unsigned long long reasons = 0;
  if (!nvml_->clock_event_reasons || nvml_->clock_event_reasons(handle_, &reasons) != kSuccess) return {};
  return throttle_reason_texts(reasons);
}

std::optional<std::string> NvmlGpu::uuid() const {
  if (!nvml_->uuid) return std::nullopt;
  return query_text([&](char* text, unsigned bytes) { return nvml_->uuid(handle_, text, bytes); });
}

std::optional<int> NvmlGpu::nvlinks() const {
  if (!nvml_->nvlink_state) return std::nullopt;
  std::optional<int> active;  // empty until NVML knows a link number
  for (unsigned link = 0; link < kMaxLinks; ++link) {
    unsigned state = 0;
    if (nvml_->nvlink_state(handle_, link, &state) != kSuccess) continue;
    const int added = state == kLinkActive ? 1 : 0;
    active = active.value_or(0) + added;
  }
  return active;
}

bool NvmlGpu::is_joined_by_nvlink(const NvmlGpu& peer) const {
  if (!nvml_->p2p_status) return false;
  return std::ranges::all_of(kAccessCapabilities, [&](int capability) {
    int status = -1;
    return nvml_->p2p_status(handle_, peer.handle_, capability, &status) == kSuccess && status == kAccessPossible;
  });
}

std::optional<std::int64_t> NvmlGpu::process_bytes() const {
  std::array<NvmlProcess, kMaxListedProcesses> processes{};
  unsigned count = kMaxListedProcesses;
  if (!nvml_->processes || nvml_->processes(handle_, &count, processes.data()) != kSuccess) return std::nullopt;
  const auto end = processes.begin() + std::min(count, kMaxListedProcesses);
  const auto own_pid = static_cast<unsigned>(getpid());
  auto own_process = std::ranges::find(processes.begin(), end, own_pid, &NvmlProcess::pid);
  // In a container, NVML may report other process numbers. A single process is then taken as this process.
  if (own_process == end && count == 1) own_process = processes.begin();
  if (own_process == end || own_process->used_bytes == kNotAvailable) return std::nullopt;
  return static_cast<std::int64_t>(own_process->used_bytes);
}

const std::shared_ptr<const NvmlFunctions>& Nvml::functions() const {
  std::call_once(loaded_, [this] {
    auto functions = std::make_shared<const NvmlFunctions>(library_);
    if (functions->is_initialized) functions_ = std::move(functions);
  });
  return functions_;
}

std::optional<std::string> Nvml::driver_version() const {
  if (!is_available() || !functions()->driver_version) return std::nullopt;
  return query_text(functions()->driver_version);
}

std::optional<NvmlGpu> Nvml::gpu(const std::string& bus_id) const {
  void* handle = nullptr;
  if (!is_available() || !functions()->gpu_by_bus_id) return std::nullopt;
  if (functions()->gpu_by_bus_id(bus_id.c_str(), &handle) != kSuccess) return std::nullopt;
  return NvmlGpu(functions(), handle);
}

bool Nvml::are_joined_by_nvlink(const std::string& bus_id, const std::string& peer_bus_id) const {
  const auto first = gpu(bus_id);
  const auto second = gpu(peer_bus_id);
  return first && second && first->is_joined_by_nvlink(*second);
}

std::vector<std::string> throttle_reason_texts(unsigned long long reasons) {
  std::vector<std::string> texts;
  for (const ThrottleReason& reason : kThrottleReasons)
    if (reasons & reason.bit) texts.emplace_back(reason.text);
  return texts;
}

}  // namespace busbw
