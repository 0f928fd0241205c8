#pragma once
// Splits a command line into flags and values. Ranges and conflicts are checked in options.cpp.
#include <optional>
#include <string>
#include <vector>

#include "options/flag_values.hpp"
#include "options/options.hpp"

namespace busbw {

struct CommandLine {
  FlagValues flags = FlagValues({});
  std::optional<InfoRequest> request;  // set if a flag such as --help is present
  std::string operand;                 // the word that is no flag: the file of a replay, or the tests of comm_ops
};

/// Splits the arguments of a program. Throws UsageError for unknown flags, missing values and unexpected words.
CommandLine read_command_line(const std::string& program, const std::string& collective,
                              const std::vector<std::string>& arguments);

}  // namespace busbw
