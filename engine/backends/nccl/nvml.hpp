#pragma once
// Queries the driver's management library (NVML). It is loaded at run time, not linked, so that it is optional. All
// calls are thread-safe.
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
  NvmlGpu(std::shared_ptr<const NvmlFunctions> call, void* handle) : call_(std::move(call)), handle_(handle) {}

  /// Current and maximum clock of the multiprocessors, and the reasons for a lower clock. Takes about 10 to 100 us.
  DeviceClockState condition() const;
  /// "GPU-5a2f...": the same after every boot.
  std::optional<std::string> uuid() const;
  /// Number of active NVLinks.
  std::optional<int> nvlinks() const;
  /// Bytes of the GPU's memory that this process uses. The process must be running on the GPU: in a container, NVML may
  /// report other process numbers, and the only process listed is then taken as this one.
  std::optional<std::int64_t> process_bytes() const;

 private:
  std::shared_ptr<const NvmlFunctions> call_;
  void* handle_;
};

/// An initialized NVML. Do not use it across a fork.
class Nvml {
 public:
  /// Returns nothing if the library does not exist or no driver answers.
  static std::optional<Nvml> open(const char* library = "libnvidia-ml.so.1");

  /// "580.95.05"
  std::optional<std::string> driver_version() const;
  /// Finds a GPU by its bus id: "0000:0f:00".
  std::optional<NvmlGpu> gpu(const std::string& bus_id) const;

 private:
  explicit Nvml(std::shared_ptr<const NvmlFunctions> call) : call_(std::move(call)) {}
  std::shared_ptr<const NvmlFunctions> call_;  // shuts down NVML when the last GPU object is destroyed
};

/// Texts of NVML's clock event reasons that lower the clock of a busy GPU. Idle is not among them.
std::vector<std::string> clock_event_texts(unsigned long long reasons);

}  // namespace busbw
