// Reads the cases of a sweep: sizes, element types, operators and root.
#include "options/option_groups.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "common/support/comma_list.hpp"
#include "common/support/error.hpp"
#include "common/support/near_miss.hpp"
#include "common/support/printable.hpp"
#include "common/values/quantity.hpp"

namespace busbw {
namespace {

/// Largest flow that `busbw find` requests: NVLINK_BYTES in src/busbw/find/rounds.py.
constexpr std::uint64_t kDefaultFlowBytes = std::uint64_t{256} << 20;

std::vector<std::uint64_t> parse_sizes(const FlagValues& flags) {
  std::vector<std::uint64_t> sizes;
  const std::string list = flags.text("--sizes", "");
  for (const std::string_view text : split_at_commas(list)) {
    const auto size = parse_size_bytes(text);
    if (!size || *size == 0)
      throw flags.invalid_value("--sizes", "a list of sizes of at least 1 byte, such as 1K,3000,7M");
    sizes.push_back(*size);
  }
  return sizes;
}

/// Parses the value of `flag`: the name of one value, which `find_by_name` looks up, or "all" for `all_values`.
template <class Value, class All>
std::vector<Value> parse_one_or_all(const FlagValues& flags, const std::string& flag, const std::string& fallback,
                                    const All& all_values, std::optional<Value> (*find_by_name)(std::string_view)) {
  const std::string text = flags.text(flag, fallback);
  if (text == "all") return {all_values.begin(), all_values.end()};
  if (const auto value = find_by_name(text)) return {*value};
  std::vector<std::string_view> names;
  for (const Value value : all_values) names.push_back(name(value));
  names.push_back("all");
  throw flags.invalid_value(flag, fmt::format("{}{}", fmt::join(names, " "), suggestion(text, names)));
}

}  // namespace

void read_sizes(const FlagValues& flags, Options& options) {
  RunSettings& settings = options.settings;
  if (flags.has("--sizes")) {
    for (const auto* range_flag : {"--minbytes", "--maxbytes", "--stepbytes", "--stepfactor"})
      if (flags.has(range_flag))
        throw UsageError(fmt::format("--sizes {} and {} {} exclude each other; drop one",
                                     printable_value(flags.text("--sizes", "")), spelling(range_flag),
                                     flags.text(range_flag, "")));
    settings.sizes_bytes = parse_sizes(flags);
    settings.min_bytes = *std::ranges::min_element(settings.sizes_bytes);
    settings.max_bytes = *std::ranges::max_element(settings.sizes_bytes);
    return;
  }
  constexpr std::uint64_t kMiB = 1 << 20;
  settings.min_bytes = flags.size("--minbytes", options.serves_flows() ? 1 : 32 * kMiB);
  settings.max_bytes = flags.size("--maxbytes", options.serves_flows() ? kDefaultFlowBytes : 32 * kMiB);
  settings.step_factor = static_cast<std::uint64_t>(flags.integer("--stepfactor", 1, 1));
  // -i 0 is accepted with -f, because the step is then unused.
  const bool is_unused_zero = settings.step_factor > 1 && flags.text("--stepbytes", "") == "0";
  settings.step_bytes = is_unused_zero ? kMiB : flags.size("--stepbytes", kMiB);
  if (settings.min_bytes > settings.max_bytes)
    throw UsageError(
        fmt::format("-b {} (--minbytes) is larger than -e {} (--maxbytes, default 32M); lower -b or raise -e",
                    flags.text("--minbytes", "32M"), flags.text("--maxbytes", "32M")));
  constexpr std::uint64_t kMaxSizes = 10'000'000;
  if (settings.step_factor == 1 && (settings.max_bytes - settings.min_bytes) / settings.step_bytes >= kMaxSizes)
    throw UsageError(fmt::format("-i {} (--stepbytes) from {} to {} bytes gives more than {} sizes; raise -i",
                                 flags.text("--stepbytes", "1M"), settings.min_bytes, settings.max_bytes, kMaxSizes));
  if (flags.has("--stepfactor") && settings.step_factor == 1)
    options.notes.push_back(fmt::format("-f 1: sizes grow by the fixed step of {} bytes (-i)", settings.step_bytes));
  if (flags.has("--stepbytes") && settings.step_factor > 1)
    options.notes.push_back(
        fmt::format("-i {} is not used: -f {}", flags.text("--stepbytes", ""), settings.step_factor));
}

void read_data(const FlagValues& flags, Options& options) {
  options.data.dtypes = parse_one_or_all<Dtype>(flags, "--datatype", "float", kDtypes, dtype_of);
  options.data.redops = parse_one_or_all<Redop>(flags, "--op", "sum", kRedops, redop_of);
  const std::string root = flags.text("--root", "0");
  const bool is_all = root == "all" || root == "-1";  // -1 as in nccl-tests
  if (is_all) return;  // `data.root` stays empty
  const auto value = parse_integer(root);
  if (!value || *value < 0 || *value > kMaxInt) throw flags.invalid_value("--root", "a rank of at least 0, or all");
  options.data.root = static_cast<int>(*value);
}

}  // namespace busbw
