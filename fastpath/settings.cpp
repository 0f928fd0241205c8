#include "fastpath/settings.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string_view>

namespace busbw::fastpath {
namespace {

constexpr std::size_t kMostMib = 1 << 20;

/// Reads variables one by one and keeps what was wrong with them.
class Reader {
 public:
  explicit Reader(Environment environment) : environment_(environment) {}

  /// Not set, and set to nothing, are the same.
  std::string text(const std::string& variable) const { return environment_(variable.c_str()).value_or(""); }

  Mode mode(const std::string& variable, Mode otherwise) {
    const std::string value = text(variable);
    if (value.empty()) return otherwise;
    if (value == "off") return Mode::off;
    if (value == "on") return Mode::on;
    if (value == "verify") return Mode::verify;
    complain(variable, value, "off, on or verify");
    return Mode::off;
  }

  std::size_t number(const std::string& variable, std::size_t otherwise, std::size_t most) {
    const std::string value = text(variable);
    if (value.empty()) return otherwise;
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error == std::errc() && end == value.data() + value.size() && number >= 1 && number <= most) return number;
    complain(variable, value, fmt::format("a whole number from 1 to {}", most));
    return otherwise;
  }

  std::vector<std::string> complaints() && { return std::move(complaints_); }

 private:
  void complain(const std::string& variable, const std::string& value, std::string_view allowed) {
    complaints_.push_back(
        fmt::format("{}={} is not understood, and the fast path is off: allowed is {}", variable, value, allowed));
  }

  Environment environment_;
  std::vector<std::string> complaints_;
};

}  // namespace

ReadSettings read_settings(Environment environment) {
  Reader reader(environment);
  Settings settings;
  settings.mode = reader.mode("BUSBW_FASTPATH", settings.mode);
  settings.log = reader.text("BUSBW_FASTPATH_LOG");
  settings.table = reader.text("BUSBW_FASTPATH_TABLE");
  settings.scratch_bytes = reader.number("BUSBW_FASTPATH_MIB", settings.scratch_bytes >> 20, kMostMib) << 20;
  auto complaints = std::move(reader).complaints();
  if (!complaints.empty()) settings.mode = Mode::off;
  return {settings, std::move(complaints)};
}

}  // namespace busbw::fastpath
