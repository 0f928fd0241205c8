#pragma once
// Every flag of the programs: its names, its placeholder and its help; the one list that parser, help and tests share.
#include <string>
#include <string_view>
#include <vector>

namespace busbw {

/// The most ranks the host backend runs on one machine.
inline constexpr int kMaxHostRanks = 1024;
/// The most ranks of a job: for so many the data has one right result (docs/checking.md).
inline constexpr int kMaxRanks = 65536;

struct Flag {
  std::string_view short_name;  // "-b", or empty
  std::string_view long_name;   // "--minbytes"
  std::string_view placeholder;
  std::string_view help;
  std::string_view section;
};

const std::vector<Flag>& flag_table();

/// "-b (--minbytes)" for messages.
std::string spelling(std::string_view long_name);

std::string help_text(std::string_view program);

}  // namespace busbw
