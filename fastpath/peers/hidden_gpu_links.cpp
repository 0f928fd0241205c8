// Loads NVML and queries the peer-to-peer capabilities of two GPUs.
#include "fastpath/peers/hidden_gpu_links.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/os/load_symbol.hpp"

namespace busbw::fastpath {
namespace {

// Constants of NVML's public header (nvml.h), copied so that the build does not need the header.
constexpr int kSuccess = 0;                         // NVML_SUCCESS, and NVML_P2P_STATUS_OK
constexpr int kRequiredCapabilities[] = {0, 1, 2};  // NVML_P2P_CAPS_INDEX_READ, _WRITE, _NVLINK

}  // namespace

/// The loaded and initialized NVML library.
class HiddenGpuLinks::Nvml {
 public:
  explicit Nvml(const char* library) : library_(dlopen(library, RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    load_symbol(library_, "nvmlShutdown", shutdown_);
    load_symbol(library_, "nvmlDeviceGetHandleByPciBusId_v2", gpu_by_bus_id_);
    load_symbol(library_, "nvmlDeviceGetP2PStatus", p2p_status_);
    int (*init)() = nullptr;
    load_symbol(library_, "nvmlInit_v2", init);
    works_ = init != nullptr && shutdown_ != nullptr && gpu_by_bus_id_ != nullptr && p2p_status_ != nullptr &&
             init() == kSuccess;
  }
  ~Nvml() {
    if (works_) shutdown_();
    if (library_ != nullptr) dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// Returns the NVML handle of a GPU. Null if NVML does not work or does not know the GPU.
  void* find_gpu(const std::string& bus_id) const {
    void* gpu = nullptr;
    return works_ && gpu_by_bus_id_(bus_id.c_str(), &gpu) == kSuccess ? gpu : nullptr;
  }

  bool has_capability(int capability, void* gpu, void* peer) const {
    int status = -1;
    return p2p_status_(gpu, peer, capability, &status) == kSuccess && status == kSuccess;
  }

 private:
  void* library_;
  bool works_ = false;
  int (*shutdown_)() = nullptr;
  int (*gpu_by_bus_id_)(const char*, void**) = nullptr;
  int (*p2p_status_)(void*, void*, int, int*) = nullptr;
};

HiddenGpuLinks::HiddenGpuLinks(std::string library) : library_(std::move(library)) {}

HiddenGpuLinks::~HiddenGpuLinks() = default;

bool HiddenGpuLinks::are_joined_by_nvlink(const std::string& bus_id, const std::string& peer_bus_id) {
  const std::lock_guard lock(mutex_);
  if (!nvml_) nvml_ = std::make_unique<const Nvml>(library_.c_str());
  void* const gpu = nvml_->find_gpu(bus_id);
  void* const peer = nvml_->find_gpu(peer_bus_id);
  if (gpu == nullptr || peer == nullptr) return false;
  return std::all_of(std::begin(kRequiredCapabilities), std::end(kRequiredCapabilities),
                     [&](int capability) { return nvml_->has_capability(capability, gpu, peer); });
}

}  // namespace busbw::fastpath
