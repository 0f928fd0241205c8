// Selects events by the BUSBW_TRACE variables, the version of the interface and the version of NCCL.
#include "profiler/wanted_events.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <initializer_list>
#include <memory>
#include <string>

#include "common/libraries/opened_library.hpp"
#include "common/support/error.hpp"
#include "common/support/printable.hpp"
#include "profiler/nccl_profiler.hpp"

namespace busbw::profiler {
namespace {

// NCCL 2.31.2. Since this version NCCL also records times of the phases of a kernel if a plugin requests device times.
// Small collectives then take up to 13 % longer.
constexpr int kFirstVersionWithCostlyDeviceTimes = 23102;

/// Returns the value of a variable. If the variable is unset, returns the first of `choices`.
std::string read_choice(Environment environment, const char* variable, std::initializer_list<const char*> choices) {
  const std::string value = nonempty_variable(environment, variable).value_or(*choices.begin());
  for (const char* const choice : choices)
    if (value == choice) return value;
  throw UsageError(fmt::format("{}: unknown value {}; set it to one of {}", variable, printable_value(value),
                               fmt::join(choices, ", ")));
}

}  // namespace

int nccl_version_of(const void* address) {
  const std::string path = file_containing(address);
  const std::unique_ptr<void, int (*)(void*)> library(
      path.empty() ? nullptr : dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD), dlclose);
  void* function = library ? dlsym(library.get(), "ncclGetVersion") : nullptr;
  if (function == nullptr) function = dlsym(RTLD_DEFAULT, "ncclGetVersion");
  int version = 0;
  if (function == nullptr || reinterpret_cast<int (*)(int*)>(function)(&version) != 0) return 0;
  return is_nccl_version(version) ? version : 0;
}

int wanted_events(Environment environment, int interface, int nccl_version) {
  const std::string device_times_choice = read_choice(environment, "BUSBW_TRACE_DEVICE_TIMES", {"auto", "on", "off"});
  // If NCCL's version is unknown, the version of the interface decides: NCCL 2.31 introduced version 7 of the
  // interface.
  const bool are_device_times_cheap =
      nccl_version != 0 ? nccl_version < kFirstVersionWithCostlyDeviceTimes : interface < 7;
  const bool are_device_times_wanted =
      device_times_choice == "on" || (device_times_choice == "auto" && are_device_times_cheap);
  // Before version 4 of the interface, NCCL gives the times at which a thread of the host noticed the kernel.
  const bool has_device_times = interface >= 4 && are_device_times_wanted;
  const bool has_network = read_choice(environment, "BUSBW_TRACE_NETWORK", {"off", "on"}) == "on";
  int mask = kGroup | kCollective | kTransfer;
  if (interface >= 5) mask |= kGroupCall | kCollectiveCall | kTransferCall;
  if (interface >= 6) mask |= kCopyEngineCollective;
  if (has_device_times) mask |= kKernelChannel;
  if (has_network) mask |= kProxyOperation;
  return mask;
}

}  // namespace busbw::profiler
