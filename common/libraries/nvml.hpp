#pragma once
// Queries NVML, the driver's management library, about GPUs: clocks, links, memory. NVML is loaded at run time, so that
// it is optional. All calls are thread-safe.
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace busbw {

struct NvmlFunctions;

/// One GPU. Values that its driver does not report are empty.
class NvmlGpu {
 public:
  NvmlGpu(std::shared_ptr<const NvmlFunctions> nvml, void* handle) : nvml_(std::move(nvml)), handle_(handle) {}

  /// Current clock of the multiprocessors. A query takes about 10 to 100 us.
  std::optional<double> clock_hz() const;
  std::optional<double> max_clock_hz() const;
  /// Reasons for a clock below the maximum. Empty if there is no reason, or if the driver cannot report reasons.
  std::vector<std::string> throttle_reasons() const;
  /// "GPU-5a2f...": the same after every boot.
  std::optional<std::string> uuid() const;
  /// Number of active NVLinks.
  std::optional<int> nvlinks() const;
  /// True if the two GPUs can read and write each other's memory over NVLink.
  bool is_joined_by_nvlink(const NvmlGpu& peer) const;
  /// Bytes of the GPU's memory that this process uses. NVML lists the processes on a GPU by number. In a container, the
  /// numbers may be wrong, so a process that is alone in the list is taken as this process. Empty if the list does not
  /// have this process.
  std::optional<std::int64_t> process_bytes() const;

 private:
  std::shared_ptr<const NvmlFunctions> nvml_;
  void* handle_;
};

/// NVML, loaded at the first query, because loading is slow, and then kept. Do not use it across a fork. Unlike CUDA,
/// it lists GPUs that CUDA_VISIBLE_DEVICES hides from this process.
class Nvml {
 public:
  explicit Nvml(std::string library = "libnvidia-ml.so.1") : library_(std::move(library)) {}

  /// True if the library exists and the driver answers.
  bool is_available() const { return functions() != nullptr; }
  /// "580.95.05"
  std::optional<std::string> driver_version() const;
  /// Finds a GPU by its bus id: "0000:0f:00". Returns nothing if NVML finds none.
  std::optional<NvmlGpu> gpu(const std::string& bus_id) const;
  /// True if both GPUs, given by their bus ids, are known and joined by NVLink.
  bool are_joined_by_nvlink(const std::string& bus_id, const std::string& peer_bus_id) const;

 private:
  const std::shared_ptr<const NvmlFunctions>& functions() const;

  std::string library_;
  mutable std::once_flag loaded_;
  /// Null if NVML is unavailable. Shared with the GPU objects; the last owner shuts down NVML.
  mutable std::shared_ptr<const NvmlFunctions> functions_;
};

/// Texts for NVML's bit mask of clock event reasons: the reasons that lower the clock of a busy GPU. The reason "idle"
/// has no text.
std::vector<std::string> throttle_reason_texts(unsigned long long reasons);

}  // namespace busbw
