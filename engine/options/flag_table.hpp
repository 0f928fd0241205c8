#pragma once
// List of all flags with their names, placeholder and help. Parser, help and tests share this list.
#include <string>
#include <string_view>
#include <vector>

namespace busbw {

/// One command-line flag.
struct Flag {
  std::string_view short_name;  // "-b", or empty
  std::string_view long_name;   // "--minbytes"
  std::string_view placeholder;  // of the value in the help: "SIZE"; empty: the flag has no value (only in comm_ops)
  std::string_view help;
  std::string_view section;  // heading in the help
  std::string_view other_name = {};  // second long name, which the help omits; empty: none
};

/// Returns all flags in the order of the help.
const std::vector<Flag>& flag_table();

/// True if a program has the flag. `program_kind`: name of the measured collective, "flows", "replay" or "comm_ops".
/// `flows` and `replay` have no sweep, `flows` also no check and no table. `comm_ops` has flags of its own, with short
/// names that mean other flags in other programs.
bool applies_to(const Flag& flag, std::string_view program_kind);
/// True if only comm_ops has the flag.
bool is_only_in_comm_ops(const Flag& flag);

/// Returns a flag's names for messages: "-b (--minbytes)".
std::string spelling(std::string_view long_name);

/// Returns the complete text of --help. `purpose` is a sentence that says what the program measures. `program_kind`: as
/// in `applies_to`; empty: any collective.
std::string help_text(std::string_view program, std::string_view purpose, std::string_view program_kind = {});

}  // namespace busbw
