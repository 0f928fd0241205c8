#pragma once
// Values of the flags on a command line, before they are interpreted.
#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "common/support/error.hpp"
#include "common/support/printable.hpp"
#include "common/values/quantity.hpp"
#include "options/flag_table.hpp"

namespace busbw {

inline constexpr std::int64_t kMaxInt = std::numeric_limits<int>::max();
inline constexpr int kMaxOverRanks = 3;  // value of -a for the maximum over all ranks

/// Values of the flags that are present, by long name. The getters return the fallback if the flag is absent, and throw
/// UsageError if the value is not allowed.
class FlagValues {
 public:
  explicit FlagValues(std::map<std::string, std::string> values) : values_(std::move(values)) {}

  bool has(const std::string& flag) const { return values_.contains(flag); }
  std::string text(const std::string& flag, const std::string& fallback) const {
    const auto entry = values_.find(flag);
    return entry == values_.end() ? fallback : entry->second;
  }
  /// Returns a whole number from `min` to `max`.
  std::int64_t integer(const std::string& flag, std::int64_t fallback, std::int64_t min,
                       std::int64_t max = kMaxInt) const {
    if (!has(flag)) return fallback;
    const auto value = parse_integer(text(flag, ""));
    if (value && *value >= min && *value <= max) return *value;
    throw invalid_value(flag, fmt::format("a whole number from {} to {}", min, max));
  }
  bool is_on(const std::string& flag) const { return integer(flag, 0, 0, 1) == 1; }
  std::uint64_t size(const std::string& flag, std::uint64_t fallback) const {
    if (!has(flag)) return fallback;
    const auto value = parse_size_bytes(text(flag, ""));
    if (value && *value > 0) return *value;
    throw invalid_value(flag,
                        "a size of at least 1 byte with an optional K, M, G or T (binary), such as 8, 32M or 0.5G");
  }
  /// Returns the error for a value that is not allowed. `allowed` completes "allowed: ...".
  UsageError invalid_value(const std::string& flag, const std::string& allowed) const {
    const std::string value = printable_value(text(flag, ""));
    return UsageError(fmt::format("{} {}: allowed: {}", spelling(flag), value.empty() ? "\"\"" : value, allowed));
  }

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace busbw
