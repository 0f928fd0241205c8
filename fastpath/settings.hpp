#pragma once
// What the environment asks of the fast path, read once.
#include <cstddef>
#include <string>
#include <vector>

#include "support/environment.hpp"

namespace busbw::fastpath {

/// off: everything is handed over to NCCL. verify: as on, and each result is held against NCCL's.
enum class Mode { off, on, verify };

/// BUSBW_FASTPATH and its kin (docs/fastpath.md); immutable once read.
struct Settings {
  Mode mode = Mode::on;
  std::string log;                              // "stderr" or a file, "%p" in it is the process id; empty: no log
  std::string table;                            // a file in place of the default table; empty: none
  std::size_t scratch_bytes = 64ull << 20;      // the most that a GPU's communicators may hold together
};

/// Settings, and a sentence for each variable that could not be understood. Where there is one everything is off: a library
/// that is loaded into a stranger's program must not end it.
struct ReadSettings {
  Settings settings;
  std::vector<std::string> complaints;
};

ReadSettings read_settings(Environment environment);

}  // namespace busbw::fastpath
