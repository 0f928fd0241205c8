// Splits a command line with CLI11, which no other file uses.
#include "options/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "common/support/error.hpp"
#include "common/support/near_miss.hpp"
#include "common/support/printable.hpp"
#include "options/flag_table.hpp"
#include "replay/replay_step.hpp"

namespace busbw {
namespace {

/// Returns the name of a flag in a word such as "--records=FILE".
std::string_view name_in(std::string_view word) { return word.substr(0, word.find('=')); }

/// Returns the suggestion for a word that is no flag of the program. The word may contain a value after "=".
std::string flag_suggestion(std::string_view word, const std::string& program_kind) {
  std::vector<std::string_view> names{"--help", "--version", "--list-devices", "--world"};
  for (const Flag& flag : flag_table())
    if (applies_to(flag, program_kind))
      for (const std::string_view name : {flag.long_name, flag.other_name})
        if (!name.empty()) names.push_back(name);
  return suggestion(name_in(word), names);
}

/// True if the word is a flag of the table, perhaps followed by "=VALUE".
bool is_flag(std::string_view word) {
  return !word.empty() && std::ranges::any_of(flag_table(), [&](const Flag& flag) {
    const std::string_view name = name_in(word);
    return name == flag.long_name || name == flag.other_name || word == flag.short_name;
  });
}

UsageError missing_value(std::string_view long_name, const std::string& program) {
  return UsageError(fmt::format("{}: a value is missing; see {} --help", spelling(long_name), program));
}

}  // namespace

CommandLine read_command_line(const std::string& program, const std::string& program_kind,
                              const std::vector<std::string>& arguments) {
  CommandLine line;
  CLI::App app{fmt::format("{}: measures one collective operation over a sweep of sizes", program), program};
  app.set_help_flag();
  app.allow_extras();
  const auto add_request = [&](const char* names, InfoRequest kind) {
    app.add_flag_callback(names, [&line, kind] { line.request = line.request.value_or(kind); });
  };
  add_request("-h,--help", InfoRequest::help);
  add_request("--version", InfoRequest::version);
  add_request("--list-devices", InfoRequest::devices);
  add_request("--world", InfoRequest::world);
  std::map<std::string, std::string> values;
  // comm_ops gives short names of other programs another meaning, so it parses its own flags only. The other programs
  // parse each other's flags too, so that parse_options can say in its error that a program lacks a flag.
  const auto is_parsed = [&](const Flag& flag) {
    return program_kind == kCommOpsName ? applies_to(flag, program_kind) : !is_only_in_comm_ops(flag);
  };
  for (const Flag& flag : flag_table()) {
    if (!is_parsed(flag)) continue;
    std::string names(flag.long_name);
    for (const std::string_view name : {flag.short_name, flag.other_name})
      if (!name.empty()) names += fmt::format(",{}", name);
    if (flag.placeholder.empty()) {
      app.add_flag_callback(names, [&values, &flag] { values[std::string(flag.long_name)] = "1"; });
      continue;
    }
    app.add_option_function<std::string>(names,
                                         [&values, &flag, &program](const std::string& text) {
                                           // CLI11 takes the next flag as the value if the value is missing.
                                           if (is_flag(text)) throw missing_value(flag.long_name, program);
                                           values[std::string(flag.long_name)] = text;
                                         })
        ->type_name(std::string(flag.placeholder))
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
        ->trigger_on_parse();
  }
  // CLI11 expects the arguments in reverse order.
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string message = error.what();  // "--minbytes: ..."
    throw missing_value(message.substr(0, message.find(':')), program);
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("{}; see {} --help", error.what(), program));
  }
  auto extras = app.remaining();
  const bool takes_operand = program_kind == kReplayName || program_kind == kCommOpsName;
  if (takes_operand && !extras.empty() && !extras.front().starts_with('-')) {
    line.operand = extras.front();
    extras.erase(extras.begin());
    // nccl-tests' comm_ops_perf has this test name; a file of a replay may have it too.
    if (program_kind == kCommOpsName && line.operand == "help") line.request = line.request.value_or(InfoRequest::help);
  }
  if (!extras.empty()) {
    const std::string& extra = extras.front();
    if (!extra.starts_with('-'))
      throw UsageError(fmt::format("unexpected argument \"{}\"; see {} --help", printable_value(extra), program));
    throw UsageError(fmt::format("unknown option \"{}\"{}; see {} --help", printable_value(extra),
                                 flag_suggestion(extra, program_kind), program));
  }
  line.flags = FlagValues(std::move(values));
  return line;
}

}  // namespace busbw
