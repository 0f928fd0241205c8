#include "values/device_kernels.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "support_errors.hpp"

using namespace busbw;

TEST_CASE("find_device_kernel: the numbers are nccl-tests'") {
  CHECK(find_device_kernel("all_reduce", 1)->kernel == DeviceKernel::all_reduce_lsa);
  CHECK(find_device_kernel("all_reduce", 2)->kernel == DeviceKernel::all_reduce_lsa_vectors);
  CHECK(find_device_kernel("all_reduce", 3)->kernel == DeviceKernel::all_reduce_multimem);
  CHECK(find_device_kernel("all_reduce", 4)->kernel == DeviceKernel::all_reduce_multimem_vectors);
  CHECK(find_device_kernel("alltoall", 1)->kernel == DeviceKernel::alltoall_lsa);
  CHECK(find_device_kernel("alltoall", 2)->kernel == DeviceKernel::alltoall_lsa_vectors);
  CHECK(find_device_kernel("alltoall", 3)->kernel == DeviceKernel::alltoall_gin);
  CHECK(find_device_kernel("alltoall", 4)->kernel == DeviceKernel::alltoall_hybrid);
  for (const char* other : {"all_gather", "alltoallv", "all_reduce_perf", ""}) {
    CAPTURE(other);
    for (int number = 0; number <= 4; ++number) CHECK_FALSE(find_device_kernel(other, number));
    CHECK(device_kernel_numbers(other).empty());
  }
  CHECK_FALSE(find_device_kernel("all_reduce", 0));
  CHECK_FALSE(find_device_kernel("all_reduce", 5));
  CHECK(device_kernel_numbers("alltoall") == "1, 2, 3, 4");
}

TEST_CASE("device kernels: each has a unique number") {
  std::set<std::pair<std::string_view, int>> numbers;
  for (const DeviceKernelInfo& info : kDeviceKernels) {
    CHECK(numbers.emplace(info.collective, info.number).second);
    CHECK(find_device_kernel(info.collective, info.number)->kernel == info.kernel);
  }
}

TEST_CASE("supports: every type and operator except mulsum; multicast only sums of float and double") {
  for (const Dtype dtype : kDtypes) {
    for (const Redop redop : kRedops) {
      CAPTURE(name(dtype));
      CAPTURE(name(redop));
      CHECK(supports(*find_device_kernel("all_reduce", 1), dtype, redop) == (redop != Redop::mulsum));
      CHECK(supports(*find_device_kernel("all_reduce", 2), dtype, redop) == (redop != Redop::mulsum));
      const bool added = redop == Redop::sum && (dtype == Dtype::float32 || dtype == Dtype::float64);
      CHECK(supports(*find_device_kernel("all_reduce", 3), dtype, redop) == added);
      CHECK(supports(*find_device_kernel("all_reduce", 4), dtype, redop) == added);
      for (int number = 1; number <= 4; ++number)
        CHECK(supports(*find_device_kernel("alltoall", number), dtype, redop));
    }
  }
}

TEST_CASE("supported_text: lists operators and types") {
  check_names(supported_text(*find_device_kernel("all_reduce", 2)), {"sum", "prod", "max", "min", "avg", "every type"});
  check_names(supported_text(*find_device_kernel("all_reduce", 3)), {"sum", "float", "double"});
  CHECK(supported_text(*find_device_kernel("alltoall", 1)) == "every type");
}
