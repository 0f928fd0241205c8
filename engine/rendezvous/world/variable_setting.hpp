#pragma once
// Reads single environment variables of a launcher, with errors that name the variable and its text.
#include <optional>
#include <string>

#include "common/os/environment.hpp"
#include "rendezvous/world/launcher_table.hpp"

namespace busbw {

/// Name and text of an environment variable. The text is not empty.
struct VariableSetting {
  std::string variable;
  std::string text;
};

/// Returns "NAME=text" for messages.
std::string to_text(const VariableSetting& setting);

/// Returns the first of `variables` that is set and not empty.
std::optional<VariableSetting> find_first_set(Environment environment, const VariableNames& variables);

/// A variable with a whole number as its text.
struct NumericVariable : VariableSetting {
  int value = 0;
};

/// Returns the first of `variables` that is set, as a number. Throws UsageError if its text is not a whole number from
/// `min` on.
std::optional<NumericVariable> read_whole_number(Environment environment, const VariableNames& variables, int min = 0);

}  // namespace busbw
