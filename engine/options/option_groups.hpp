#pragma once
// Functions that parse_options calls in the order of this file. Each reads one group of flags or variables and throws
// UsageError. Its file is named after the group.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/environment.hpp"
#include "options/flag_values.hpp"
#include "options/options.hpp"

namespace busbw {

/// Value of -a for the maximum over all ranks.
inline constexpr int kMaxOverRanks = 3;

/// Returns the parts of a text between its commas. Without a comma, the whole text is one part, also an empty text.
inline std::vector<std::string_view> split_at_commas(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t comma = text.find(','); comma != text.npos; comma = text.find(',')) {
    parts.push_back(text.substr(0, comma));
    text.remove_prefix(comma + 1);
  }
  parts.push_back(text);
  return parts;
}

// replay_options.cpp
/// Reads the replay program in `file`, which is empty if the command line does not name a file. `executable`: name of
/// this executable, for messages.
std::shared_ptr<const MatchedCalls> read_matched_calls(const std::string& executable, const std::string& file);

// case_options.cpp
void read_sizes(const FlagValues& flags, Options& options);
void read_data(const FlagValues& flags, Options& options);

// measurement_options.cpp
/// Reads the flags of the timing loop and of its report. The GPU flags must be known.
void read_measurement(const FlagValues& flags, Options& options);
void read_ping_pong(const FlagValues& flags, Options& options);
/// Reads -H. The GPU flags and --ping-pong must be known.
void read_one_sided(const FlagValues& flags, Options& options);

// traffic_options.cpp
/// Reads the variables of alltoallv. The sizes must be known.
void read_alltoallv(Environment environment, Options& options);
/// Reads --skew. The ranks must be known.
void read_skew(const FlagValues& flags, Environment environment, Options& options);

// neighbor_options.cpp
/// Reads --with. The ranks must be known.
void read_neighbor(const FlagValues& flags, Options& options);

// These three replace settings or defaults of a sweep, after all other groups.
// flow_options.cpp
void configure_flows(Options& options);
// replay_options.cpp
void configure_replay(Options& options);
// comm_ops_options.cpp
/// `tests`: names with commas, or "all".
void configure_comm_ops(const FlagValues& flags, const std::string& tests, Options& options);

}  // namespace busbw
