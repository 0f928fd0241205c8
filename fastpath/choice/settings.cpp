// Reads the BUSBW_FASTPATH variables, and the NCCL variables that the fast path must respect.
#include "fastpath/choice/settings.hpp"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "common/support/stderr_message.hpp"
#include "fastpath/choice/number.hpp"

namespace busbw::fastpath {
namespace {

constexpr int kMaxMib = 1 << 20;  // 1 TiB

/// Parses a value such as "exchange,8,512" or "nccl". Returns nothing if it is invalid.
std::optional<MethodConfig> parse_method_config(std::string_view text) {
  const auto comma = text.find(',');
  const auto method = method_named(text.substr(0, comma));
  if (!method) return std::nullopt;
  const bool needs_numbers = *method != Method::nccl;
  const bool has_numbers = comma != text.npos;
  if (has_numbers != needs_numbers) return std::nullopt;
  if (!needs_numbers) return MethodConfig{.method = Method::nccl};
  const auto numbers = text.substr(comma + 1);
  const auto second_comma = numbers.find(',');
  if (second_comma == numbers.npos) return std::nullopt;
  const auto blocks = parse_number_in_range(numbers.substr(0, second_comma), 1, kMaxBlocks);
  const auto threads = parse_number_in_range(numbers.substr(second_comma + 1), kWarpThreads, kMaxThreads);
  if (!blocks || !threads || *threads % kWarpThreads != 0) return std::nullopt;
  return MethodConfig{*method, *blocks, *threads};
}

/// Reads environment variables and collects an error message for each invalid value.
class VariableReader {
 public:
  explicit VariableReader(Environment environment) : environment_(environment) {}

  /// Returns the variable's value. Empty if the variable is unset.
  std::string text(const std::string& variable) const { return environment_(variable.c_str()).value_or(""); }

  Mode mode(const std::string& variable, Mode default_value) {
    const std::string value = text(variable);
    if (value.empty()) return default_value;
    if (value == "off") return Mode::off;
    if (value == "on") return Mode::on;
    if (value == "verify") return Mode::verify;
    add_error(variable, value, "off, on or verify");
    return Mode::off;
  }

  int number(const std::string& variable, int default_value, int max) {
    const std::string value = text(variable);
    if (value.empty()) return default_value;
    if (const auto number = parse_number_in_range(value, 1, max)) return *number;
    add_error(variable, value, fmt::format("a whole number from 1 to {}", max));
    return default_value;
  }

  std::optional<MethodConfig> config(const std::string& variable) {
    const std::string value = text(variable);
    if (value.empty()) return std::nullopt;
    const auto config = parse_method_config(value);
    if (!config)
      add_error(variable, value,
                fmt::format(
                    "nccl, or METHOD,BLOCKS,THREADS such as exchange,8,512 with up to {} blocks and up to {} threads, "
                    "a multiple of {}",
                    kMaxBlocks, kMaxThreads, kWarpThreads));
    return config;
  }

  std::vector<std::string> errors() && { return std::move(errors_); }

 private:
  void add_error(const std::string& variable, const std::string& value, std::string_view allowed) {
    errors_.push_back(fmt::format("{}={} is invalid, so the fast path is off; set {}", variable, value, allowed));
  }

  Environment environment_;
  std::vector<std::string> errors_;
};

/// Returns the variable of a collective, such as BUSBW_FASTPATH_ALL_REDUCE.
std::string variable_of(Collective collective) {
  std::string variable = fmt::format("BUSBW_FASTPATH_{}", name(collective));
  const auto to_upper_case = [](char c) {
    const bool is_lower_case = c >= 'a' && c <= 'z';
    return is_lower_case ? static_cast<char>(c - 'a' + 'A') : c;
  };
  std::ranges::transform(variable, variable.begin(), to_upper_case);
  return variable;
}

/// Reads the settings and prints their errors to stderr. The result is never freed, because a program may call NCCL
/// after main() has returned.
const Settings* read_and_report_errors() noexcept {
  try {
    const auto parsed = read_settings(process_environment);
    for (const auto& message : parsed.errors) print_stderr("libbusbw_nccl.so", message);
    return new Settings(parsed.settings);
  } catch (const std::exception& error) {
    print_stderr("libbusbw_nccl.so", error.what());
    static Settings off;
    off.modes.fill(Mode::off);
    return &off;
  }
}

}  // namespace

bool Settings::all_off() const noexcept {
  return std::ranges::all_of(modes, [](Mode mode) { return mode == Mode::off; });
}

ParsedSettings read_settings(Environment environment) {
  VariableReader reader(environment);
  Settings settings;
  const Mode default_mode = reader.mode("BUSBW_FASTPATH", Mode::on);
  for (const Collective collective : kCollectives)
    settings.modes[static_cast<std::size_t>(collective)] = reader.mode(variable_of(collective), default_mode);
  settings.log = reader.text("BUSBW_FASTPATH_LOG");
  settings.table = reader.text("BUSBW_FASTPATH_TABLE");
  const int default_mib = static_cast<int>(settings.scratch_bytes >> 20);
  settings.scratch_bytes = std::size_t(reader.number("BUSBW_FASTPATH_MIB", default_mib, kMaxMib)) << 20;
  settings.nvls_is_off = nccl_number("NCCL_NVLS_ENABLE", environment) == 0;
  settings.forced = reader.config("BUSBW_FASTPATH_METHOD");
  auto errors = std::move(reader).errors();
  if (!errors.empty()) settings.modes.fill(Mode::off);
  return {settings, std::move(errors)};
}

std::optional<long long> nccl_number(const char* variable, Environment environment) {
  const std::string text = environment(variable).value_or("");
  if (text.empty()) return std::nullopt;
  errno = 0;
  const long long number = std::strtoll(text.c_str(), nullptr, 0);
  if (errno != 0) return std::nullopt;
  return number;
}

bool requires_real_nccl(Environment environment) {
  const auto is_on = [&](const char* variable) { return nccl_number(variable, environment).value_or(0) != 0; };
  const std::string mode = environment("NCCL_CHECK_MODE").value_or("");
  return is_on("NCCL_LAUNCH_ORDER_IMPLICIT") || is_on("NCCL_CHECK_POINTERS") ||
         strncasecmp(mode.c_str(), "DEBUG", 5) == 0;
}

const Settings& settings() noexcept {
  static const Settings* const process_settings = read_and_report_errors();
  return *process_settings;
}

}  // namespace busbw::fastpath
