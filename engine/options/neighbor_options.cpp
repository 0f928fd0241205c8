// Reads --with: the collective or local load that runs next to the measured one.
#include "options/option_groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <sstream>

#include "common/support/error.hpp"
#include "common/support/near_miss.hpp"
#include "common/support/printable.hpp"
#include "options/command_line.hpp"
#include "options/flag_table.hpp"

namespace busbw {
namespace {

/// Throws UsageError if the flags of a neighbor's collective contain others than size, type, operator and root.
void require_neighbor_flags(const FlagValues& flags) {
  constexpr std::array<std::string_view, 5> kAllowed{"--minbytes", "--maxbytes", "--datatype", "--op", "--root"};
  for (const Flag& flag : flag_table()) {
    const bool is_allowed = std::ranges::find(kAllowed, flag.long_name) != kAllowed.end();
    if (!is_allowed && flags.has(std::string(flag.long_name)))
      throw UsageError(fmt::format("{}: a neighbor has -b, -e, -d, -o and -r only; drop it", flag.long_name));
  }
}

/// Parses a neighbor that is a collective. `arguments`: flags of the collective's program. `ranks`: number of ranks
/// that run the collective.
NeighborLoad parse_collective_load(const std::string& collective, const std::vector<std::string>& arguments,
                                   int ranks) {
  const CommandLine line = read_command_line(/*program=*/collective, collective, arguments);
  if (line.request) throw UsageError("a neighbor has no --help, --version, --list-devices or --world; drop it");
  Options options;
  options.flags = line.flags;
  require_neighbor_flags(line.flags);
  read_sizes(line.flags, options);
  read_data(line.flags, options);
  const bool is_single = options.settings.min_bytes == options.settings.max_bytes && options.data.dtypes.size() == 1 &&
                         options.data.redops.size() == 1 && options.data.root;
  if (!is_single) throw UsageError("a neighbor has one size, type, operator and root; use the same size for -b and -e");
  if (*options.data.root >= ranks)
    throw UsageError(fmt::format("-r {}: allowed: a rank from 0 to {}", *options.data.root, ranks - 1));
  NeighborLoad load{.collective = busbw::make_collective(collective, {}),
                    .dtype = options.data.dtypes.front(),
                    .redop = options.data.redops.front(),
                    .root = *options.data.root,
                    .bytes = options.settings.max_bytes};
  if (const std::string error = load.collective->rank_count_error(ranks); !error.empty())
    throw UsageError(error + "; use another collective, or another number of ranks");
  return load;
}

/// Parses the value of --with: a local load ("memory:copy"), or a collective with flags ("alltoall -b 1M -e 1M").
NeighborLoad parse_neighbor(const std::string& text, int ranks) {
  const std::string flag = fmt::format("--with {}", printable_value(text));
  if (const std::optional<NeighborLoad> local = make_local_load(text)) return *local;
  std::istringstream stream(text);
  std::vector<std::string> arguments{std::istream_iterator<std::string>(stream), {}};
  const std::string name = arguments.empty() ? "" : arguments.front();
  std::vector<std::string_view> names(std::begin(kLocalLoads), std::end(kLocalLoads));
  for (const CollectiveEntry& entry : all_collectives()) names.push_back(entry.name);
  if (std::ranges::find(names, name) == names.end())
    throw UsageError(
        fmt::format("{}: allowed: compute:matmul, memory:copy, or a collective with its size, such as "
                    "\"alltoall -b 1M -e 1M\"{}",
                    flag, suggestion(name, names)));
  arguments.erase(arguments.begin());
  try {
    return parse_collective_load(name, arguments, ranks);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", flag, error.what()));
  }
}

}  // namespace

void read_neighbor(const FlagValues& flags, Options& options) {
  RunSettings& settings = options.settings;
  settings.neighbor = flags.text("--with", "");
  if (!flags.has("--with")) return;
  const std::array excluded{
      std::pair{"--cudagraph", settings.graph_launches > 0}, std::pair{"--stream_null", options.null_stream},
      std::pair{"--device_implementation", settings.device_implementation > 0},
      std::pair{"--host_rma_implementation", settings.rma_contexts > 0}, std::pair{"--skew", !settings.skew.empty()}};
  for (const auto& [flag, is_set] : excluded)
    if (is_set)
      throw UsageError(fmt::format("--with {} and {} {} exclude each other; drop one",
                                   printable_value(settings.neighbor), spelling(flag),
                                   printable_value(flags.text(flag, ""))));
  options.neighbor = parse_neighbor(settings.neighbor, options.smallest_group());
}

}  // namespace busbw
