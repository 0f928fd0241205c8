// A parser takes the number from the start of the text; the rest must be a known unit or empty.
#include "common/values/quantity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

namespace busbw {
namespace {

constexpr double kMaxSizeBytes = 0x1p62;  // fits a signed 64-bit integer

/// Parses the number at the start of `text` and removes it. Signs and hexadecimal are rejected.
std::optional<double> take_number(std::string_view& text) {
  const bool starts_as_number = !text.empty() && (text.front() == '.' || (text.front() >= '0' && text.front() <= '9'));
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (!starts_as_number || error != std::errc() || !std::isfinite(value)) return std::nullopt;
  text.remove_prefix(end - text.data());
  return value;
}

/// Bytes of a unit: 1 for "", 1024 for "K", "kb" and "KiB". Nothing if `suffix` is not a unit.
std::optional<double> size_unit_bytes(std::string_view suffix) {
  std::string unit(suffix);
  std::ranges::transform(unit, unit.begin(), [](unsigned char letter) { return std::toupper(letter); });
  if (unit.size() == 3 && unit.ends_with("IB"))
    unit.resize(1);
  else if (unit.ends_with('B'))
    unit.pop_back();
  if (unit.empty()) return 1;
  const std::size_t index = std::string_view("KMGT").find(unit);
  if (unit.size() > 1 || index == std::string_view::npos) return std::nullopt;
  const int power_of_two = 10 * (static_cast<int>(index) + 1);
  return std::ldexp(1.0, power_of_two);
}

}  // namespace

std::optional<std::uint64_t> parse_size_bytes(std::string_view text) {
  const auto value = take_number(text);
  const auto unit = size_unit_bytes(text);
  if (!value || !unit) return std::nullopt;
  const double bytes = *value * *unit;
  if (bytes != std::floor(bytes) || bytes > kMaxSizeBytes) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

std::optional<std::uint64_t> parse_digits(std::string_view text, int base) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  const bool negative = text.starts_with('-');
  std::string_view digits = negative ? text.substr(1) : text;
  int base = 10;
  if (digits.starts_with("0x") || digits.starts_with("0X")) {
    base = 16;
    digits.remove_prefix(2);
  } else if (digits.size() > 1 && digits.front() == '0') {
    return std::nullopt;  // other programs would read an octal number
  }
  const auto value = parse_digits(digits, base);
  if (!value || *value > std::numeric_limits<std::int64_t>::max()) return std::nullopt;
  const auto magnitude = static_cast<std::int64_t>(*value);
  return negative ? -magnitude : magnitude;
}

std::optional<double> parse_number(std::string_view text) {
  const auto value = take_number(text);
  if (!text.empty()) return std::nullopt;
  return value;
}

std::optional<double> parse_duration_s(std::string_view text) {
  const auto value = take_number(text);
  if (!value) return std::nullopt;
  if (text.empty() || text == "s") return *value;
  if (text == "ms") return *value * 1e-3;
  if (text == "m" || text == "min") return *value * 60;
  return std::nullopt;
}

std::optional<double> parse_fraction(std::string_view text) {
  const auto value = take_number(text);
  if (!value) return std::nullopt;
  if (text.empty()) return *value;
  if (text == "%") return *value / 100;
  return std::nullopt;
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 7> units{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, value == std::floor(value) ? 0 : 1, units[unit]);
}

}  // namespace busbw
