#include "fastpath/choice/table_line.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/support/error.hpp"
#include "common/support/printable.hpp"
#include "common/values/quantity.hpp"
#include "fastpath/choice/number.hpp"

namespace busbw::fastpath {
namespace {

constexpr std::string_view kForm = "all_reduce ranks=4 up_to=64K exchange blocks=8 threads=512";

std::string_view take_word(std::string_view& text) {
  constexpr std::string_view blank = " \t\r";
  text.remove_prefix(std::min(text.find_first_not_of(blank), text.size()));
  const std::string_view word = text.substr(0, text.find_first_of(blank));
  text.remove_prefix(word.size());
  return word;
}

/// "nccl, exchange, direct"
std::string methods_for(Collective collective) {
  std::string all;
  for (const Method method : kMethods)
    if (supports(collective, method)) all += fmt::format("{}{}", all.empty() ? "" : ", ", name(method));
  return all;
}

}  // namespace

std::optional<TableLine> TableLineParser::next(std::string_view text) {
  ++number_;
  text = text.substr(0, text.find('#'));
  TableLine line;
  bool is_empty = true;
  while (!text.empty()) {
    const std::string_view word = take_word(text);
    if (word.empty()) continue;
    is_empty = false;
    parse_word(word, line);
  }
  if (is_empty) return std::nullopt;
  require_whole(line);
  return line;
}

void TableLineParser::throw_error(const std::string& what, const std::string& remedy) const {
  throw UsageError(fmt::format("{}:{}: {}; {}", printable_value(source_), number_, what, remedy));
}

template <typename Value>
void TableLineParser::once(const Value& value, std::string_view key) const {
  if (value != 0) throw_error(fmt::format("{}= stands twice in it", key), "give it once");
}

void TableLineParser::parse_word(std::string_view word, TableLine& line) const {
  const std::size_t equals = word.find('=');
  if (line.collective && equals != std::string_view::npos) {
    assign(word, word.substr(0, equals), word.substr(equals + 1), line);
  } else if (!line.collective) {
    line.collective = collective_named(word);
    if (!line.collective) {
      throw_error(fmt::format("\"{}\" is no collective of the fast path", printable_value(word)),
             "begin the line with all_reduce, all_gather, reduce_scatter, broadcast or alltoall");
    }
  } else if (word == "windows") {
    if (line.is_for_windows) throw_error("windows stands twice in it", "give it once");
    line.is_for_windows = true;
  } else {
    const auto method = method_named(word);
    if (!method) throw_error(fmt::format("\"{}\" is no method", printable_value(word)), "give nccl, exchange, two_shot or direct");
    if (line.method) throw_error("it has two methods", "give one a line");
    line.method = method;
  }
}

void TableLineParser::assign(std::string_view word, std::string_view key, std::string_view value, TableLine& line) const {
  if (key == "ranks") {
    once(line.max_ranks, key);
    const std::size_t dash = value.find('-');
    const bool is_range = dash != std::string_view::npos;
    const auto least = number_between(value.substr(0, dash), 2, Table::kMaxTableRanks);
    const auto most = is_range ? number_between(value.substr(dash + 1), 2, Table::kMaxTableRanks) : least;
    if (!least || !most || *least > *most) {
      throw_error(fmt::format("\"{}\" is no number of ranks", printable_value(word)),
             fmt::format("give a number from 2 to {} or a range such as ranks=2-8", Table::kMaxTableRanks));
    }
    line.min_ranks = *least;
    line.max_ranks = *most;
  } else if (key == "up_to") {
    once(line.up_to_bytes, key);
    const auto bytes = parse_size_bytes(value);
    if (!bytes || *bytes == 0) {
      throw_error(fmt::format("\"{}\" is no size", printable_value(word)), "give bytes, or K, M or G, such as up_to=64K");
    }
    line.up_to_bytes = *bytes;
  } else if (key == "blocks") {
    once(line.blocks, key);
    const auto blocks = number_between(value, 1, kMaxBlocks);
    if (!blocks) {
      throw_error(fmt::format("\"{}\" is no number of blocks", printable_value(word)),
             fmt::format("give one from 1 to {}", kMaxBlocks));
    }
    line.blocks = *blocks;
  } else if (key == "threads") {
    once(line.threads, key);
    const auto threads = number_between(value, kWarpThreads, kMaxThreads);
    if (!threads || *threads % kWarpThreads != 0) {
      throw_error(fmt::format("\"{}\" is no number of threads", printable_value(word)),
             fmt::format("give a multiple of {} up to {}", kWarpThreads, kMaxThreads));
    }
    line.threads = *threads;
  } else {
    throw_error(fmt::format("\"{}\" is not known here", printable_value(word)), "give ranks=, up_to=, blocks= and threads=");
  }
}

void TableLineParser::require_whole(const TableLine& line) const {
  const bool has_shape = line.blocks != 0 || line.threads != 0;
  if (!line.collective || !line.method || line.max_ranks == 0 || line.up_to_bytes == 0) {
    throw_error("something is missing", fmt::format("write a line as in \"{}\"", kForm));
  }
  if (!supports(*line.collective, *line.method)) {
    throw_error(fmt::format("{} cannot do {}", name(*line.method), name(*line.collective)),
           fmt::format("give one of {}", methods_for(*line.collective)));
  }
  if (line.is_for_windows && !supports(*line.collective, Method::direct)) {
    throw_error(fmt::format("{} makes no use of windows", name(*line.collective)), "leave out windows");
  }
  if (*line.method == Method::direct && !line.is_for_windows) {
    throw_error("direct takes buffers in symmetric windows", "write windows before up_to=");
  }
  if (*line.method == Method::nccl && has_shape) {
    throw_error("nccl chooses its blocks and threads itself", "leave them out");
  }
  if (*line.method != Method::nccl && (line.blocks == 0 || line.threads == 0)) {
    throw_error(fmt::format("{} has no blocks= or no threads=", name(*line.method)),
           fmt::format("write a line as in \"{}\"", kForm));
  }
}

}  // namespace busbw::fastpath
