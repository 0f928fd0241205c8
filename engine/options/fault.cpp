// Parses the text of --fault: "KIND:key=value,...".
#include "options/fault.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "common/support/comma_list.hpp"
#include "common/support/error.hpp"
#include "common/support/printable.hpp"
#include "common/values/quantity.hpp"

namespace busbw {
namespace {

constexpr std::string_view kRemedy =
    "use delay:rank=R,us=N, flip:rank=R,index=I,bit=B, overrun:rank=R, die:rank=R,phase=P or hang:rank=R,phase=P, "
    "where P is rendezvous, initialisation, warmup, timing, check or report";

/// Maximum delay: one hour, so that a typing error does not look like a hang.
constexpr std::uint64_t kMaxDelayUs = 3'600'000'000;

/// Highest bit of the widest element type.
constexpr std::uint64_t kMaxBit = 63;

struct FaultSyntax {
  std::string_view name;
  Fault::Kind kind;
  std::vector<std::string_view> keys;  // all are required
};

const std::vector<FaultSyntax>& fault_syntaxes() {
  static const std::vector<FaultSyntax> syntaxes{{"delay", Fault::Kind::delay, {"rank", "us"}},
                                                 {"flip", Fault::Kind::flip, {"rank", "index", "bit"}},
                                                 {"overrun", Fault::Kind::overrun, {"rank"}},
                                                 {"die", Fault::Kind::die, {"rank", "phase"}},
                                                 {"hang", Fault::Kind::hang, {"rank", "phase"}}};
  return syntaxes;
}

/// The text of one --fault flag, for its error.
struct FaultText {
  std::string_view text;
  [[noreturn]] void reject(const std::string& reason) const {
    throw UsageError(fmt::format("--fault {}: {}; {}", printable_value(text), reason, kRemedy));
  }
};

/// Parses a whole number from 0 to `max`. `key` is named in the error.
std::uint64_t parse_whole_number(std::string_view key, std::string_view value, std::uint64_t max,
                                 const FaultText& fault_text) {
  const auto number = parse_digits(value);
  if (!number || *number > max)
    fault_text.reject(fmt::format("{}={} is not a whole number from 0 to {}", key, printable_value(value), max));
  return *number;
}

Phase parse_phase(std::string_view value, const FaultText& fault_text) {
  const auto match = std::ranges::find_if(kPhases, [&](Phase phase) { return name(phase) == value; });
  if (match == kPhases.end()) fault_text.reject(fmt::format("'{}' is not a phase", printable_value(value)));
  return *match;
}

/// Sets the member of `fault` that `key` names. The key is one of fault_syntaxes().
void set_value(Fault& fault, std::string_view key, std::string_view value, const FaultText& fault_text) {
  if (key == "rank")
    fault.rank = static_cast<int>(parse_whole_number(key, value, std::numeric_limits<int>::max(), fault_text));
  if (key == "us") fault.delay_us = parse_whole_number(key, value, kMaxDelayUs, fault_text);
  if (key == "index")
    fault.index = parse_whole_number(key, value, std::numeric_limits<std::uint64_t>::max(), fault_text);
  if (key == "bit") fault.bit = static_cast<int>(parse_whole_number(key, value, kMaxBit, fault_text));
  if (key == "phase") fault.phase = parse_phase(value, fault_text);
}

}  // namespace

Fault parse_fault(std::string_view text) {
  const FaultText fault_text{text};
  const std::size_t colon = std::min(text.find(':'), text.size());  // without a colon: the end of the text
  const std::string_view kind_text = text.substr(0, colon);
  const auto syntax = std::ranges::find(fault_syntaxes(), kind_text, &FaultSyntax::name);
  if (syntax == fault_syntaxes().end())
    fault_text.reject(fmt::format("'{}' is not a kind of fault", printable_value(kind_text)));

  Fault fault;
  fault.kind = syntax->kind;
  std::vector<std::string_view> missing_keys = syntax->keys;
  if (text.ends_with(',')) fault_text.reject("the text ends with a comma");
  std::vector<std::string_view> assignments;
  if (colon + 1 < text.size()) assignments = split_at_commas(text.substr(colon + 1));
  for (const std::string_view assignment : assignments) {
    const std::size_t equals = assignment.find('=');
    if (equals == std::string_view::npos)
      fault_text.reject(fmt::format("'{}' is not key=value", printable_value(assignment)));
    const std::string_view key = assignment.substr(0, equals);
    const auto missing_key = std::ranges::find(missing_keys, key);
    if (missing_key == missing_keys.end())
      fault_text.reject(fmt::format("key '{}' is unknown or repeated", printable_value(key)));
    missing_keys.erase(missing_key);
    set_value(fault, key, assignment.substr(equals + 1), fault_text);
  }
  if (!missing_keys.empty()) fault_text.reject(fmt::format("key '{}' is missing", missing_keys.front()));
  return fault;
}

}  // namespace busbw
