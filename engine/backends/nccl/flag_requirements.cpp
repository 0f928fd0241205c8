#include "backends/nccl/flag_requirements.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

namespace busbw {
namespace {

/// "2.28.9", and "2.27" where nothing follows.
std::string text_of(int version) {
  const std::string text = fmt::format("{}.{}", version / 10000, version / 100 % 100);
  return version % 100 ? fmt::format("{}.{}", text, version % 100) : text;
}

FlagRequirement kernel_need(const DeviceKernelInfo& kernel, int headers) {
  FlagRequirement need{fmt::format("-D {} (--device_implementation)", kernel.number),
                "leave -D out",
                {"ncclDevCommCreate", "ncclDevCommDestroy", "ncclTeamLsa"},
                headers};
  // Until 2.29 a kernel and the library had to have the very same layout of a device communicator.
  if (headers < 22900) need.before = 22900;
  return need;
}

}  // namespace

std::vector<FlagRequirement> flag_requirements(const NcclOptions& flags, int headers) {
  std::vector<FlagRequirement> needs;
  if (flags.registration == RegistrationMode::local)
    needs.push_back({"-R 1 (--local_register)",
                     "leave -R out",
                     {"ncclMemAlloc", "ncclMemFree", "ncclCommRegister", "ncclCommDeregister"},
                     21900});
  if (flags.registration == RegistrationMode::symmetric)
    needs.push_back({"-R 2 (--local_register)",
                     "leave -R out",
                     {"ncclMemAlloc", "ncclMemFree", "ncclCommWindowRegister", "ncclCommWindowDeregister"},
                     22700});
  if (flags.cta_policy)
    needs.push_back({fmt::format("-x {} (--cta_policy)", *flags.cta_policy),
                     "leave -x out",
                     {"ncclCommInitRankConfig"},
                     *flags.cta_policy == 2 ? 22800 : 22700});
  if (flags.kernel) needs.push_back(kernel_need(*flags.kernel, headers));
  return needs;
}

std::string unmet_requirement(const std::vector<FlagRequirement>& needs, int version, const std::string& path,
                    const std::function<bool(const char*)>& has) {
  for (const FlagRequirement& need : needs) {
    const std::string allowed =
        need.before ? fmt::format("{} up to, not including, {}", text_of(need.since), text_of(need.before))
                    : fmt::format("{} or later", text_of(need.since));
    const std::string remedy = fmt::format("use {} (--library, BUSBW_NCCL_LIBRARY), or {}", allowed, need.remedy);
    std::vector<const char*> missing;
    for (const char* function : need.functions)
      if (!has(function)) missing.push_back(function);
    if (!missing.empty())
      return fmt::format("{} needs {}, which NCCL {} ({}) lacks; {}", need.flag, fmt::join(missing, ", "),
                         text_of(version), path, remedy);
    if (version < need.since || (need.before && version >= need.before))
      return fmt::format("{} does not work with NCCL {} ({}); {}", need.flag, text_of(version), path, remedy);
  }
  return "";
}

std::string disabled_by_environment(const NcclOptions& flags, Environment environment) {
  if (!flags.kernel || !flags.kernel->multimem || environment("NCCL_NVLS_ENABLE") != "0") return "";
  return fmt::format(
      "-D {} (--device_implementation) needs NVLink multicast, which NCCL_NVLS_ENABLE=0 switches off; unset it where "
      "the machine can, or use -D 1 or 2",
      flags.kernel->number);
}

}  // namespace busbw
