// Lookups in the table of kernels of -D.
#include "values/device_kernels.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace busbw {

std::optional<DeviceKernelInfo> find_device_kernel(std::string_view collective, int number) {
  const auto kernel = std::ranges::find_if(kDeviceKernels, [&](const DeviceKernelInfo& info) {
    return info.collective == collective && info.number == number;
  });
  if (kernel == kDeviceKernels.end()) return std::nullopt;
  return *kernel;
}

bool supports(const DeviceKernelInfo& kernel, Dtype dtype, Redop redop) {
  if (kernel.collective != "all_reduce") return true;
  // The kernels use the switch instructions that add floats and doubles. Other types need other instructions.
  if (kernel.multimem) return redop == Redop::sum && (dtype == Dtype::float32 || dtype == Dtype::float64);
  return redop != Redop::mulsum;  // only NCCL's own operation knows the factors of mulsum
}

std::string device_kernel_numbers(std::string_view collective) {
  std::string numbers;
  for (const DeviceKernelInfo& info : kDeviceKernels)
    if (info.collective == collective) numbers += fmt::format("{}{}", numbers.empty() ? "" : ", ", info.number);
  return numbers;
}

std::string supported_text(const DeviceKernelInfo& kernel) {
  if (kernel.collective != "all_reduce") return "every type";
  if (kernel.multimem) return "-o sum with -d float or double";
  return "-o sum, prod, max, min or avg with every type";
}

}  // namespace busbw
