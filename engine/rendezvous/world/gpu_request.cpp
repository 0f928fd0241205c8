// Finds out from variables whether the user requested GPUs, so that a run does not measure the host by mistake.
#include "rendezvous/world/gpu_request.hpp"

#include <fmt/format.h>

#include <string_view>

#include "common/support/comma_list.hpp"
#include "common/support/printable.hpp"

namespace busbw {
namespace {

/// Variables with a number of GPUs, as Slurm writes it: "8", "h100:8" or "h100:4,a100:4". The first variable that is
/// set decides. SLURM_GPUS_ON_NODE comes before Slurm's other variables, because it describes the node of this process.
constexpr const char* kCountVariables[]{"BUSBW_REQUESTED_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE",
                                        "SLURM_GPUS_PER_TASK", "SLURM_GPUS"};

/// True if a text of `kCountVariables` has a number that is not 0.
bool names_gpus(std::string_view text) {
  for (const std::string_view entry : split_at_commas(text)) {
    const std::string_view count = entry.substr(entry.rfind(':') + 1);  // npos + 1 is 0
    // The number may be too large for an integer.
    const bool is_number = count.find_first_not_of("0123456789") == count.npos;
    const bool is_zero = count.find_first_not_of('0') == count.npos;
    if (is_number && !is_zero) return true;
  }
  return false;
}

}  // namespace

std::optional<std::string> gpu_request(Environment environment) {
  for (const char* variable : kCountVariables)
    if (const auto text = nonempty_variable(environment, variable)) {
      if (!names_gpus(*text)) return std::nullopt;
      return fmt::format("{}={}", variable, printable_value(*text));
    }
  return std::nullopt;
}

}  // namespace busbw
