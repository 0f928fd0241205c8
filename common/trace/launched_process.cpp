// Reads rank and size of this process from the variables of launchers, for the header of a trace file.
#include "common/trace/launched_process.hpp"

#include <array>
#include <limits>
#include <optional>

#include "common/values/quantity.hpp"

namespace busbw::trace {
namespace {

/// Names of the variables of a launcher.
struct LauncherVariables {
  const char* rank;
  const char* size;  // null: the launcher does not set the size
};

// Inner launchers come first, because a task of Slurm may be an agent of torchrun or a process of MPI.
constexpr std::array<LauncherVariables, 6> kLaunchers{{
    {"BUSBW_RANK", "BUSBW_SIZE"},
    {"RANK", "WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
    {"PMIX_RANK", nullptr},
    {"SLURM_PROCID", "SLURM_NTASKS"},
}};

/// Returns the number in a variable. Nothing if the variable is unset or not a number of std::int32_t from 0 on.
std::optional<std::int32_t> find_number(Environment environment, const char* variable) {
  const auto text = nonempty_variable(environment, variable);
  const auto value = text ? parse_digits(*text) : std::nullopt;
  const bool is_valid = value && *value <= std::uint64_t{std::numeric_limits<std::int32_t>::max()};
  return is_valid ? std::optional(static_cast<std::int32_t>(*value)) : std::nullopt;
}

}  // namespace

LaunchedProcess launched_process(Environment environment) {
  for (const LauncherVariables& launcher : kLaunchers) {
    const auto rank = find_number(environment, launcher.rank);
    if (!rank) continue;
    const auto size = launcher.size != nullptr ? find_number(environment, launcher.size) : std::nullopt;
    LaunchedProcess process{.rank = *rank};
    const bool is_valid_size = size && *size > *rank;
    if (is_valid_size) process.size = *size;
    return process;
  }
  return {};
}

}  // namespace busbw::trace
