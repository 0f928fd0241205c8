#pragma once
// GPUs of this host that CUDA does not show to this process (CUDA_VISIBLE_DEVICES): how they are joined.
#include <memory>
#include <mutex>
#include <string>

namespace busbw::fastpath {

/// What NVML, the driver's library for management, knows of them: unlike CUDA it knows every GPU that this process may
/// touch. It is opened when it is first asked and stays open, since that takes a while, and is asked by one thread at a
/// time.
class HiddenGpuLinks {
 public:
  explicit HiddenGpuLinks(std::string library = "libnvidia-ml.so.1");
  ~HiddenGpuLinks();

  /// Whether these two reach each other's memory over NVLink. They are named by their PCI bus ids ("0000:0a:00.0").
  /// False where NVML is not there, does not know one of them, or cannot say.
  bool are_joined_by_nvlink(const std::string& bus_id, const std::string& other);

 private:
  class Nvml;

  std::string library_;
  std::mutex mutex_;
  std::unique_ptr<const Nvml> nvml_;  // null: not asked yet
};

}  // namespace busbw::fastpath
