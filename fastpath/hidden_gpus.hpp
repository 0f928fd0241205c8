#pragma once
// GPUs of this host that CUDA does not show to this process (CUDA_VISIBLE_DEVICES): how they are joined.
#include <string>

namespace busbw::fastpath {

/// Whether two GPUs of this host reach each other's memory over NVLink, by what NVML, the driver's library for management,
/// says: unlike CUDA it knows every GPU that this process may touch. They are named by their PCI bus ids
/// ("0000:0a:00.0"). False where NVML is not there, does not know one of them, or cannot say.
bool nvml_finds_nvlink(const std::string& bus_id, const std::string& other, const char* library = "libnvidia-ml.so.1");

}  // namespace busbw::fastpath
