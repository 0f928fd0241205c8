// Selects the kernel of an operation by its element type, and waits for a lane's tags.
#include "fastpath/device/launch.hpp"

#include "fastpath/device/kernel_launchers.hpp"

namespace busbw::fastpath {
namespace {

/// Waits until all tags of the lane have reached `tag` or the communicator is aborted. Each thread polls one tag.
__global__ void wait_for_tags(const __grid_constant__ Lane lane, const std::uint64_t tag) {
  const volatile std::uint64_t* current_tag = lane.tags + threadIdx.x;
  const volatile std::uint32_t* aborted = lane.aborted;
  while (*current_tag < tag && *aborted == 0) __nanosleep(200);  // 200 ns
}

}  // namespace

void preload_kernels(int ranks) {
  preload_float32_kernels(ranks);
  preload_float16_kernels(ranks);
  preload_bfloat16_kernels(ranks);
  preload_moving_kernels(ranks);
  cudaFuncAttributes unused_attributes;
  cudaFuncGetAttributes(&unused_attributes, wait_for_tags);  // loads the kernel
}

cudaError_t launch(const Operation& operation, const Lane& lane, cudaStream_t stream) {
  switch (operation.element) {
    case ElementType::float16: return launch_float16_kernel(operation, lane, stream);
    case ElementType::bfloat16: return launch_bfloat16_kernel(operation, lane, stream);
    case ElementType::float32: return launch_float32_kernel(operation, lane, stream);
    case ElementType::bytes: break;
  }
  return launch_moving_kernel(operation, lane, stream);
}

cudaError_t launch_wait(const Lane& lane, std::uint64_t tag, cudaStream_t stream) {
  Lane lane_argument = lane;
  std::uint64_t tag_argument = tag;
  void* arguments[] = {&lane_argument, &tag_argument};
  // Not a launch by <<<>>>: its error is only CUDA's last error, which may be an earlier one. cudaLaunchKernel returns
  // its own error. An earlier error must not stop this rank, because its peers would hang.
  return cudaLaunchKernel(reinterpret_cast<const void*>(&wait_for_tags), dim3(1), dim3(kMaxBlocks), arguments, 0,
                          stream);
}

}  // namespace busbw::fastpath
