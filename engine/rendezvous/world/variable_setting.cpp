// Reads the variables by which launchers tell a process its place in the job, as text or as whole numbers.
#include "rendezvous/world/variable_setting.hpp"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "common/support/error.hpp"
#include "common/support/printable.hpp"
#include "common/values/quantity.hpp"

namespace busbw {

std::string to_text(const VariableSetting& setting) {
  return fmt::format("{}={}", setting.variable, printable_value(setting.text));
}

std::optional<VariableSetting> find_first_set(Environment environment, const VariableNames& variables) {
  for (const char* variable : variables)
    if (auto text = environment(variable); text && !text->empty()) return VariableSetting{variable, *std::move(text)};
  return std::nullopt;
}

std::optional<NumericVariable> read_whole_number(Environment environment, const VariableNames& variables, int min) {
  const auto setting = find_first_set(environment, variables);
  if (!setting) return std::nullopt;
  constexpr int kMax = std::numeric_limits<int>::max();
  const auto value = parse_digits(setting->text);
  if (!value || *value < static_cast<unsigned>(min) || *value > kMax)
    throw UsageError(
        fmt::format("{}: allowed is a whole number from {} to {}; or set BUSBW_LAUNCHER to the launcher "
                    "that started this process",
                    to_text(*setting), min, kMax));
  return NumericVariable{*setting, static_cast<int>(*value)};
}

}  // namespace busbw
