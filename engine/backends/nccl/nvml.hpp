#pragma once
// Queries NVML, the driver's management library, about GPUs: clocks, links, memory. NVML is loaded at run time, so that
// it is optional. All calls are thread-safe.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/backend.hpp"

namespace busbw {

struct NvmlFunctions;

/// One GPU. Values that its driver does not report are empty.
class NvmlGpu {
 public:
  NvmlGpu(std::shared_ptr<const NvmlFunctions> nvml, void* handle) : nvml_(std::move(nvml)), handle_(handle) {}

  /// Current and maximum clock of the multiprocessors, and the reasons for a lower clock. Takes about 10 to 100 us.
  DeviceClockState condition() const;
  /// "GPU-5a2f...": the same after every boot.
  std::optional<std::string> uuid() const;
  /// Number of active NVLinks.
  std::optional<int> nvlinks() const;
  /// Bytes of the GPU's memory that this process uses. The process must be running on the GPU. In a container, NVML may
  /// report other process numbers; if it lists one process, that is taken as this one.
  std::optional<std::int64_t> process_bytes() const;

 private:
  std::shared_ptr<const NvmlFunctions> nvml_;
  void* handle_;
};

/// An initialized NVML. Do not use it across a fork.
class Nvml {
 public:
  /// Returns nothing if the library does not exist or no driver answers.
  static std::optional<Nvml> open(const char* library = "libnvidia-ml.so.1");

  /// "580.95.05"
  std::optional<std::string> driver_version() const;
  /// Finds a GPU by its bus id: "0000:0f:00". Returns nothing if NVML finds none.
  std::optional<NvmlGpu> gpu(const std::string& bus_id) const;

 private:
  explicit Nvml(std::shared_ptr<const NvmlFunctions> nvml) : nvml_(std::move(nvml)) {}
  std::shared_ptr<const NvmlFunctions> nvml_;  // shared with the GPU objects; the last owner shuts down NVML
};

/// Texts for NVML's bit mask of clock event reasons: the reasons that lower the clock of a busy GPU. The reason "idle"
/// has no text.
std::vector<std::string> clock_event_texts(unsigned long long reasons);

}  // namespace busbw
