#include "backends/nccl/flag_requirements.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

namespace busbw {
namespace {

/// "2.28.9", or "2.27" if the last number is 0.
std::string text_of(int version) {
  const std::string text = fmt::format("{}.{}", version / 10000, version / 100 % 100);
  return version % 100 ? fmt::format("{}.{}", text, version % 100) : text;
}

FlagRequirement kernel_requirement(const DeviceKernelInfo& kernel, int headers) {
  FlagRequirement requirement{fmt::format("-D {} (--device_implementation)", kernel.number),
                              "leave -D out",
                              {"ncclDevCommCreate", "ncclDevCommDestroy", "ncclTeamLsa"},
                              headers};
  // Before 2.29, kernel and library had to have exactly the same layout of a device communicator.
  if (headers < 22900) requirement.before = 22900;
  return requirement;
}

}  // namespace

std::vector<FlagRequirement> flag_requirements(const NcclOptions& flags, int headers) {
  std::vector<FlagRequirement> requirements;
  if (flags.registration == RegistrationMode::local)
    requirements.push_back({"-R 1 (--local_register)",
                            "leave -R out",
                            {"ncclMemAlloc", "ncclMemFree", "ncclCommRegister", "ncclCommDeregister"},
                            21900});
  if (flags.registration == RegistrationMode::symmetric)
    requirements.push_back({"-R 2 (--local_register)",
                            "leave -R out",
                            {"ncclMemAlloc", "ncclMemFree", "ncclCommWindowRegister", "ncclCommWindowDeregister"},
                            22700});
  if (flags.cta_policy)
    requirements.push_back({fmt::format("-x {} (--cta_policy)", *flags.cta_policy),
                            "leave -x out",
                            {"ncclCommInitRankConfig"},
                            *flags.cta_policy == 2 ? 22800 : 22700});
  if (flags.kernel) requirements.push_back(kernel_requirement(*flags.kernel, headers));
  return requirements;
}

std::string unmet_requirement(const std::vector<FlagRequirement>& requirements, int version, const std::string& path,
                              const std::function<bool(const char*)>& has) {
  for (const FlagRequirement& requirement : requirements) {
    const std::string allowed =
        requirement.before
            ? fmt::format("{} up to, not including, {}", text_of(requirement.since), text_of(requirement.before))
            : fmt::format("{} or later", text_of(requirement.since));
    const std::string remedy =
        fmt::format("use {} (--library, BUSBW_NCCL_LIBRARY), or {}", allowed, requirement.remedy);
    std::vector<const char*> missing;
    for (const char* function : requirement.functions)
      if (!has(function)) missing.push_back(function);
    if (!missing.empty())
      return fmt::format("{} needs {}, which NCCL {} ({}) lacks; {}", requirement.flag, fmt::join(missing, ", "),
                         text_of(version), path, remedy);
    if (version < requirement.since || (requirement.before && version >= requirement.before))
      return fmt::format("{} does not work with NCCL {} ({}); {}", requirement.flag, text_of(version), path, remedy);
  }
  return "";
}

std::string disabled_by_environment(const NcclOptions& flags, Environment environment) {
  if (!flags.kernel || !flags.kernel->multimem || environment("NCCL_NVLS_ENABLE") != "0") return "";
  return fmt::format(
      "-D {} (--device_implementation) needs NVLink multicast, which NCCL_NVLS_ENABLE=0 disables; unset it if "
      "the machine has multicast, or use -D 1 or 2",
      flags.kernel->number);
}

}  // namespace busbw
