#pragma once
// NVLink connections of GPUs that CUDA_VISIBLE_DEVICES hides from this process. The setup of a communicator needs them
// for peers in other processes, because CUDA does not know hidden GPUs.
#include <memory>
#include <mutex>
#include <string>

namespace busbw::fastpath {

/// Queries NVML, the driver's management library. Unlike CUDA, NVML lists every GPU that this process may access. NVML
/// is loaded at the first query and stays loaded, because loading is slow. Thread-safe: queries run one at a time.
class HiddenGpuLinks {
 public:
  explicit HiddenGpuLinks(std::string library = "libnvidia-ml.so.1");
  ~HiddenGpuLinks();

  /// True if two GPUs can access each other's memory over NVLink. The arguments are PCI bus ids ("0000:0a:00.0"). False
  /// if NVML is missing, does not know one of the GPUs, or returns an error.
  bool are_joined_by_nvlink(const std::string& bus_id, const std::string& peer_bus_id);

 private:
  class Nvml;

  std::string library_;
  std::mutex mutex_;
  std::unique_ptr<const Nvml> nvml_;  // null: not loaded yet
};

}  // namespace busbw::fastpath
