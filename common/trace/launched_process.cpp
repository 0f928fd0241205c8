// Reads rank and size of this process from the variables of launchers, for the header of a trace file.
#include "common/trace/launched_process.hpp"

#include <array>
#include <limits>
#include <optional>

#include "common/values/quantity.hpp"

namespace busbw::trace {
namespace {

struct Variables {
  const char* rank;
  const char* size;  // null: the launcher sets none
};

// The innermost launcher comes first: agents of torchrun and processes of MPI may themselves be tasks of Slurm.
constexpr std::array<Variables, 6> kLaunchers{{
    {"BUSBW_RANK", "BUSBW_SIZE"},
    {"RANK", "WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
    {"PMIX_RANK", nullptr},
    {"SLURM_PROCID", "SLURM_NTASKS"},
}};

std::optional<std::int32_t> read_number(Environment environment, const char* variable) {
  const auto text = nonempty_variable(environment, variable);
  const auto value = text ? parse_digits(*text) : std::nullopt;
  const bool is_valid = value && *value <= std::uint64_t{std::numeric_limits<std::int32_t>::max()};
  return is_valid ? std::optional(static_cast<std::int32_t>(*value)) : std::nullopt;
}

}  // namespace

LaunchedProcess launched_process(Environment environment) {
  for (const Variables& launcher : kLaunchers) {
    const auto rank = read_number(environment, launcher.rank);
    if (!rank) continue;
    const auto size = launcher.size != nullptr ? read_number(environment, launcher.size) : std::nullopt;
    return {.rank = *rank, .size = size && *size > *rank ? *size : -1};
  }
  return {};
}

}  // namespace busbw::trace
