#pragma once
// Splits a command line into flags and values. The functions of option_groups.hpp and options.cpp check the values.
#include <optional>
#include <string>
#include <vector>

#include "options/flag_values.hpp"
#include "options/options.hpp"

namespace busbw {

struct CommandLine {
  FlagValues flags = FlagValues({});
  std::optional<InfoRequest> request;  // set if a flag such as --help is present
  std::string operand;  // the word that is no flag: file of a replay, or tests of comm_ops; empty: none
};

/// Splits the arguments of a program. `program_kind` decides the allowed flags: see `applies_to` in flag_table.hpp.
/// Throws UsageError for unknown flags, missing values and unexpected words.
CommandLine read_command_line(const std::string& program, const std::string& program_kind,
                              const std::vector<std::string>& arguments);

}  // namespace busbw
