// Parses a line of a table word by word, then checks that its values belong together.
#include "fastpath/choice/table_line.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/support/error.hpp"
#include "common/support/printable.hpp"
#include "common/values/quantity.hpp"
#include "fastpath/choice/number.hpp"

namespace busbw::fastpath {
namespace {

constexpr std::string_view kExampleLine = "all_reduce ranks=4 up_to=64K exchange blocks=8 threads=512";

/// Removes the first word from the text and returns it. Empty if the text has no further word.
std::string_view remove_first_word(std::string_view& text) {
  constexpr std::string_view blank = " \t\r";
  text.remove_prefix(std::min(text.find_first_not_of(blank), text.size()));
  const std::string_view word = text.substr(0, text.find_first_of(blank));
  text.remove_prefix(word.size());
  return word;
}

/// Returns all collectives as text: "all_reduce, all_gather or broadcast".
std::string collectives_text() {
  std::vector<std::string_view> names;
  for (const Collective collective : kCollectives) names.push_back(name(collective));
  return fmt::format("{} or {}", fmt::join(names.begin(), names.end() - 1, ", "), names.back());
}

/// Returns the methods of a collective as text: "nccl, exchange, direct".
std::string methods_text(Collective collective) {
  std::string methods;
  for (const Method method : kMethods)
    if (supports(collective, method)) methods += fmt::format("{}{}", methods.empty() ? "" : ", ", name(method));
  return methods;
}

}  // namespace

std::optional<TableLine> TableLineParser::parse_next_line(std::string_view text) {
  ++line_number_;
  text = text.substr(0, text.find('#'));  // removes a comment
  TableLine line;
  bool is_blank = true;
  while (!text.empty()) {
    const std::string_view word = remove_first_word(text);
    if (word.empty()) continue;
    is_blank = false;
    parse_word(word, line);
  }
  if (is_blank) return std::nullopt;
  require_complete(line);
  return line;
}

void TableLineParser::throw_error(const std::string& problem, const std::string& remedy) const {
  throw UsageError(fmt::format("{}:{}: {}; {}", printable_value(source_), line_number_, problem, remedy));
}

template <typename Value>
void TableLineParser::reject_duplicate(const Value& parsed_value, std::string_view key) const {
  if (parsed_value != 0) throw_error(fmt::format("{}= occurs twice", key), "give it once");
}

void TableLineParser::parse_word(std::string_view word, TableLine& line) const {
  const std::size_t equals = word.find('=');
  if (!line.collective) {  // the first word
    line.collective = collective_named(word);
    if (!line.collective) {
      throw_error(fmt::format("\"{}\" is not a collective of the fast path", printable_value(word)),
                  fmt::format("begin the line with {}", collectives_text()));
    }
  } else if (equals != std::string_view::npos) {
    parse_key_value(word, word.substr(0, equals), word.substr(equals + 1), line);
  } else if (word == "windows") {
    if (line.is_for_symmetric_windows) throw_error("windows occurs twice", "give it once");
    line.is_for_symmetric_windows = true;
  } else {
    const auto method = method_named(word);
    if (!method)
      throw_error(fmt::format("\"{}\" is not a method", printable_value(word)),
                  "give nccl, exchange, two_shot or direct");
    if (line.method) throw_error("the line has two methods", "give one method per line");
    line.method = method;
  }
}

void TableLineParser::parse_key_value(std::string_view word, std::string_view key, std::string_view value,
                                      TableLine& line) const {
  if (key == "ranks") {
    reject_duplicate(line.max_ranks, key);
    const std::size_t dash = value.find('-');
    const bool is_range = dash != std::string_view::npos;
    const auto min_ranks = parse_number_in_range(value.substr(0, dash), 2, Table::kMaxTableRanks);
    const auto max_ranks =
        is_range ? parse_number_in_range(value.substr(dash + 1), 2, Table::kMaxTableRanks) : min_ranks;
    if (!min_ranks || !max_ranks || *min_ranks > *max_ranks) {
      throw_error(fmt::format("\"{}\" is not a number of ranks", printable_value(word)),
                  fmt::format("give a number from 2 to {} or a range such as ranks=2-8", Table::kMaxTableRanks));
    }
    line.min_ranks = *min_ranks;
    line.max_ranks = *max_ranks;
  } else if (key == "up_to") {
    reject_duplicate(line.up_to_bytes, key);
    const auto bytes = parse_size_bytes(value);
    if (!bytes || *bytes == 0) {
      throw_error(fmt::format("\"{}\" is not a size", printable_value(word)),
                  "give bytes, or K, M, G or T, such as up_to=64K");
    }
    line.up_to_bytes = *bytes;
  } else if (key == "blocks") {
    reject_duplicate(line.blocks, key);
    const auto blocks = parse_number_in_range(value, 1, kMaxBlocks);
    if (!blocks) {
      throw_error(fmt::format("\"{}\" is not a number of blocks", printable_value(word)),
                  fmt::format("give a number from 1 to {}", kMaxBlocks));
    }
    line.blocks = *blocks;
  } else if (key == "threads") {
    reject_duplicate(line.threads, key);
    const auto threads = parse_number_in_range(value, kWarpThreads, kMaxThreads);
    if (!threads || *threads % kWarpThreads != 0) {
      throw_error(fmt::format("\"{}\" is not a number of threads", printable_value(word)),
                  fmt::format("give a multiple of {} up to {}", kWarpThreads, kMaxThreads));
    }
    line.threads = *threads;
  } else {
    throw_error(fmt::format("\"{}\" is not a key of a table line", printable_value(word)),
                "give ranks=, up_to=, blocks= and threads=");
  }
}

void TableLineParser::require_complete(const TableLine& line) const {
  const bool has_blocks_or_threads = line.blocks != 0 || line.threads != 0;
  if (!line.collective || !line.method || line.max_ranks == 0 || line.up_to_bytes == 0) {
    throw_error("the line is incomplete", fmt::format("write a line such as \"{}\"", kExampleLine));
  }
  if (!supports(*line.collective, *line.method)) {
    throw_error(fmt::format("{} cannot run {}", name(*line.method), name(*line.collective)),
                fmt::format("give one of {}", methods_text(*line.collective)));
  }
  if (line.is_for_symmetric_windows && !supports(*line.collective, Method::direct)) {
    throw_error(fmt::format("{} does not use windows", name(*line.collective)), "remove windows from the line");
  }
  if (*line.method == Method::direct && !line.is_for_symmetric_windows) {
    throw_error("direct needs buffers in symmetric windows", "write windows before up_to=");
  }
  if (*line.method == Method::nccl && has_blocks_or_threads) {
    throw_error("nccl takes no blocks= or threads=", "remove them from the line");
  }
  if (*line.method != Method::nccl && (line.blocks == 0 || line.threads == 0)) {
    throw_error(fmt::format("{} needs blocks= and threads=", name(*line.method)),
                fmt::format("write a line such as \"{}\"", kExampleLine));
  }
}

}  // namespace busbw::fastpath
