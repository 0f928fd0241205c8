#pragma once
// Selects the launcher that started this process. A launcher's claim is the rank and the size that its variables state.
// If several launchers are nested, each of them has a claim, and one claim is selected.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/environment.hpp"
#include "common/os/process_status.hpp"
#include "rendezvous/world/launcher_table.hpp"
#include "rendezvous/world/variable_setting.hpp"

namespace busbw {

inline constexpr const char* kLauncherVariable = "BUSBW_LAUNCHER";
inline constexpr std::string_view kNoLauncher = "none";  // value of BUSBW_LAUNCHER
inline constexpr std::string_view kAloneRemedy = "or set BUSBW_LAUNCHER=none to run this process alone on purpose";

/// Rank of this process and size of its job, according to one launcher's variables. Empty if no variable states them.
struct LauncherClaim {
  const LauncherEntry* launcher;
  std::optional<NumericVariable> rank;
  std::optional<NumericVariable> size;

  bool is_complete() const { return rank && size; }
  bool has_several_processes() const { return size && size->value > 1; }
  /// Both claims must be complete.
  bool agrees_with(const LauncherClaim& other) const {
    return rank->value == other.rank->value && size->value == other.size->value;
  }
};

/// True if `ancestor` is a daemon of the launcher.
bool is_daemon_of(const LauncherEntry& launcher, const Ancestor& ancestor);

/// Returns the selected claim, or nothing if this process is alone. Adds a note to `notes` for each ignored launcher
/// with another rank or size. Throws UsageError if the claims are invalid, incomplete or contradictory.
std::optional<LauncherClaim> select_claim(Environment environment, Ancestors (*ancestors)(),
                                          std::vector<std::string>& notes);

}  // namespace busbw
