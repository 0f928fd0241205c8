#pragma once
// What the driver's management library (NVML) says of GPUs. It is loaded when the program runs and never linked, so
// that a machine without it only knows less. Its calls are safe from any thread.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/backend.hpp"

namespace busbw {

struct NvmlFunctions;

/// One GPU. What its driver does not say is missing.
class NvmlGpu {
 public:
  NvmlGpu(std::shared_ptr<const NvmlFunctions> call, void* handle) : call_(std::move(call)), handle_(handle) {}

  /// Its multiprocessors' clock now, the greatest they may have, and what holds the clock back. Some 10 to 100 us.
  DeviceClockState condition() const;
  /// "GPU-5a2f...": the same on every boot.
  std::optional<std::string> uuid() const;
  /// NVLinks that are up.
  std::optional<int> nvlinks() const;
  /// Bytes of its memory that this process has. The process must be at work on it: in a container, where NVML may
  /// number processes otherwise, the only one there is then this one.
  std::optional<std::int64_t> used_here_bytes() const;

 private:
  std::shared_ptr<const NvmlFunctions> call_;
  void* handle_;
};

/// NVML, ready to be asked. Not to be carried over a fork.
class Nvml {
 public:
  /// Missing where there is no library of that name, or no driver that answers it.
  static std::optional<Nvml> open(const char* library = "libnvidia-ml.so.1");

  /// "580.95.05"
  std::optional<std::string> driver_version() const;
  /// By bus id: "0000:0f:00".
  std::optional<NvmlGpu> gpu(const std::string& bus_id) const;

 private:
  explicit Nvml(std::shared_ptr<const NvmlFunctions> call) : call_(std::move(call)) {}
  std::shared_ptr<const NvmlFunctions> call_;  // closes NVML when the last GPU of it goes
};

/// The words for NVML's clock event reasons: those that hold a busy GPU's clock back. Being idle is not one of them.
std::vector<std::string> clock_event_words(unsigned long long reasons);

}  // namespace busbw
