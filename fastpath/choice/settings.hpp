#pragma once
// What the environment asks of the fast path, read once.
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/os/environment.hpp"
#include "fastpath/choice/table.hpp"
#include "fastpath/schedule/collective.hpp"

namespace busbw::fastpath {

/// off: everything is handed over to NCCL. verify: as on, and each result is held against NCCL's.
enum class Mode { off, on, verify };

/// BUSBW_FASTPATH and its kin (docs/fastpath.md); immutable once read.
struct Settings {
  std::array<Mode, kCollectives.size()> modes;  // by Collective; all the same unless a variable names one
  std::string log;                              // "stderr" or a file, "%p" in it is the process id; empty: no log
  std::string table;                            // a file in place of the default table; empty: none
  std::size_t scratch_bytes = 64ull << 20;      // the most that a GPU's communicators may hold together
  bool nvls_is_off = false;                     // NCCL_NVLS_ENABLE=0: NCCL does not use NVLink multicast
  std::optional<MethodConfig> forced;                 // whatever the table says, where the collective can be done so

  Settings() { modes.fill(Mode::on); }
  Mode mode(Collective collective) const noexcept { return modes[static_cast<std::size_t>(collective)]; }
  /// Whether everything is handed over.
  bool all_off() const noexcept;
};

/// Settings, and a sentence for each variable that could not be understood. Where there is one everything is off: a
/// library that is loaded into a stranger's program must not end it.
struct ParsedSettings {
  Settings settings;
  std::vector<std::string> complaints;
};

ParsedSettings read_settings(Environment environment);

/// A variable of NCCL's that is a number, as NCCL reads it: what is no number is 0. Empty where it counts as not set.
std::optional<long long> nccl_number(const char* variable, Environment environment);

/// Whether one of NCCL's variables asks for what only NCCL does: that calls of several communicators begin in one order
/// on each GPU (NCCL_LAUNCH_ORDER_IMPLICIT), or that arguments are checked (NCCL_CHECK_MODE, NCCL_CHECK_POINTERS). They
/// may have come from NCCL's file of settings: ask when NCCL has started.
bool requires_real_nccl(Environment environment);

/// This process's, read when they are first asked for; complaints go to stderr.
const Settings& settings() noexcept;

}  // namespace busbw::fastpath
