#pragma once
// Command lines as tests write them, with an environment of their own.
#include <doctest/doctest.h>

#include <map>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "options.hpp"
#include "support_errors.hpp"

namespace busbw {

using Variables = std::map<std::string, std::string>;

/// The environment that `look_up` sees; parse_options takes a plain function.
inline Variables& made_up_environment() {
  thread_local Variables variables;
  return variables;
}
inline std::optional<std::string> look_up(const char* variable) {
  const auto found = made_up_environment().find(variable);
  if (found == made_up_environment().end()) return std::nullopt;
  return found->second;
}

inline std::vector<std::string> words(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> result;
  for (std::string word; stream >> word;) result.push_back(word);
  return result;
}

inline std::variant<Options, Request> parse(const std::vector<std::string>& arguments,
                                            const Variables& environment = {},
                                            const std::string& collective = "all_reduce") {
  made_up_environment() = environment;
  return parse_options(collective + "_perf", collective, arguments, look_up);
}

/// The options of a command line that must be good.
inline Options options_of(const std::string& line, const Variables& environment = {},
                          const std::string& collective = "all_reduce") {
  const auto parsed = parse(words(line), environment, collective);
  REQUIRE(std::holds_alternative<Options>(parsed));
  return std::get<Options>(parsed);
}

/// The refusal of a command line that must not be good.
inline std::string refusal_of(const std::vector<std::string>& arguments, const Variables& environment = {},
                              const std::string& collective = "all_reduce") {
  return sentence_of<UsageError>([&] { parse(arguments, environment, collective); });
}
inline std::string refusal_of(const std::string& line, const Variables& environment = {},
                              const std::string& collective = "all_reduce") {
  return refusal_of(words(line), environment, collective);
}

}  // namespace busbw
