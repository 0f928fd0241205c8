#pragma once
// Each function reads one group of flags or variables, or throws UsageError. parse_options calls them in this order.
// The comment above a function names its source file.
#include <memory>
#include <string>

#include "common/os/environment.hpp"
#include "options/flag_values.hpp"
#include "options/options.hpp"

namespace busbw {

// replay_options.cpp
/// Reads the replay program in a file. `file`: path of the file, or empty if the command line names none, which is an
/// error. `executable`: name of this executable, for messages.
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

// The other kinds of programs. Called last, because each of these replaces settings and defaults of a sweep.
// flow_options.cpp
void configure_flows(Options& options);
// replay_options.cpp
void configure_replay(Options& options);
// comm_ops_options.cpp
/// `tests`: names with commas, or "all".
void configure_comm_ops(const FlagValues& flags, const std::string& tests, Options& options);

}  // namespace busbw
