#pragma once
// Settings of the fast path, read once from the environment. The fast path is the library libbusbw_nccl.so. It runs
// some NCCL calls of a program with its own kernels, and delegates all others to the real NCCL.
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/os/environment.hpp"
#include "fastpath/choice/table.hpp"
#include "fastpath/schedule/collective.hpp"

namespace busbw::fastpath {

/// Mode of a collective. off: every call is delegated to NCCL. verify: as on, but a kernel also computes each result
/// from all ranks' inputs and compares both results.
enum class Mode { off, on, verify };

/// Values of the BUSBW_FASTPATH variables (docs/reference/environment.md). Immutable after they are read.
struct Settings {
  std::array<Mode, kCollectives.size()> modes;  // by Collective
  std::string log;  // "stderr" or a file name with "%p" for the process id; empty: no log
  std::string table;  // file that replaces the default table; empty: use the default table
  std::size_t scratch_bytes = 64ull << 20;  // limit for all communicators of one GPU together
  bool nvls_is_off = false;  // NCCL_NVLS_ENABLE=0: NCCL does not use NVLink multicast
  std::optional<MethodConfig> forced;  // replaces the table; collectives without this method use NCCL

  Settings() { modes.fill(Mode::on); }
  Mode mode(Collective collective) const noexcept { return modes[static_cast<std::size_t>(collective)]; }
  /// True if every call is delegated to NCCL.
  bool all_off() const noexcept;
};

/// Settings, with an error message for each invalid variable. Any error switches the fast path off, because the library
/// must not terminate a program that loads it.
struct ParsedSettings {
  Settings settings;
  std::vector<std::string> errors;
};

/// Reads all settings from the environment.
ParsedSettings read_settings(Environment environment);

/// Parses a numeric variable as NCCL does: text that is not a number is 0. Nothing if the variable is unset, empty or
/// out of range.
std::optional<long long> nccl_number(const char* variable, Environment environment);

/// True if an NCCL variable requests a feature that only NCCL has: one launch order for all communicators of a GPU
/// (NCCL_LAUNCH_ORDER_IMPLICIT) or checks of arguments (NCCL_CHECK_MODE, NCCL_CHECK_POINTERS). Call this after NCCL has
/// started, because NCCL may set these variables from its configuration file.
bool requires_real_nccl(Environment environment);

/// Returns the settings of this process. The first call reads them and prints errors to stderr.
const Settings& settings() noexcept;

}  // namespace busbw::fastpath
