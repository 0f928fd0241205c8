#pragma once
// Flags of comm_ops.
#include <string>

#include "options/flag_values.hpp"
#include "options/options.hpp"

namespace busbw {

/// Reads the settings of comm_ops and replaces those of a sweep. `tests`: names with commas, or "all". The ranks must
/// be known. Throws UsageError.
void configure_comm_ops(const FlagValues& flags, const std::string& tests, Options& options);

}  // namespace busbw
