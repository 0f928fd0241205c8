#pragma once
// Parses command lines of tests, each with its own environment.
#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "options/options.hpp"
#include "support_environment.hpp"
#include "support_errors.hpp"

namespace busbw {

inline std::vector<std::string> words(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> result;
  for (std::string word; stream >> word;) result.push_back(word);
  return result;
}

inline std::variant<Options, InfoRequest> parse(const std::vector<std::string>& arguments,
                                                const Variables& environment = {},
                                                const std::string& collective = "all_reduce") {
  made_up_environment() = environment;
  return parse_options(collective + "_perf", collective, arguments, look_up);
}

/// Options of a valid command line.
inline Options options_of(const std::string& line, const Variables& environment = {},
                          const std::string& collective = "all_reduce") {
  const auto parsed = parse(words(line), environment, collective);
  REQUIRE(std::holds_alternative<Options>(parsed));
  return std::get<Options>(parsed);
}

/// Error message of an invalid command line.
inline std::string refusal_of(const std::vector<std::string>& arguments, const Variables& environment = {},
                              const std::string& collective = "all_reduce") {
  return sentence_of<UsageError>([&] { parse(arguments, environment, collective); });
}
inline std::string refusal_of(const std::string& line, const Variables& environment = {},
                              const std::string& collective = "all_reduce") {
  return refusal_of(words(line), environment, collective);
}

}  // namespace busbw
