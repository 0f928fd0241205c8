// Parses tables, looks up ranges, and writes tables as text.
#include "fastpath/choice/table.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>

#include "common/os/descriptor.hpp"
#include "common/support/error.hpp"
#include "common/support/fnv1a.hpp"
#include "common/support/printable.hpp"
#include "fastpath/choice/table_line.hpp"

namespace busbw::fastpath {
namespace {

constexpr std::size_t kMaxTextBytes = 1 << 20;  // far above any table
/// Upper limit of the last range of a list.
constexpr std::size_t kNoEnd = std::numeric_limits<std::size_t>::max();

/// For each collective and each number of ranks from 0 to the maximum: one list for windows and one for other buffers.
constexpr std::size_t kListCount = 2 * kCollectives.size() * (Table::kMaxTableRanks + 1);

/// Returns the index of a list. The list for windows directly follows the list for other buffers. The first collective
/// on 4 ranks has index 8, and index 9 in windows.
std::size_t list_index(Collective collective, int ranks, bool in_windows) {
  const auto collective_and_ranks =
      static_cast<std::size_t>(collective) * (Table::kMaxTableRanks + 1) + static_cast<std::size_t>(ranks);
  return 2 * collective_and_ranks + (in_windows ? 1 : 0);
}

std::string read_text(const std::string& path) {
  const auto error_for = [&path](const std::string& reason) {
    return UsageError(fmt::format("cannot read the table {}: {}; name a table that busbw fastpath tune wrote",
                                  printable_value(path), reason));
  };
  // O_NONBLOCK: opening a pipe without a writer would block.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status{};
  if (!file.is_open() || fstat(file.number(), &status) != 0) throw error_for(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) throw error_for("not a regular file");
  std::string text(kMaxTextBytes + 1, '\0');
  const ssize_t size = read_fully(file, text.data(), text.size());
  if (size < 0) throw error_for(std::strerror(errno));
  if (size == std::ssize(text)) throw error_for("larger than 1 MiB");
  text.resize(static_cast<std::size_t>(size));
  return text;
}

/// Returns a size as a table states it: "64K" for 65536.
std::string table_size_text(std::size_t bytes) {
  constexpr std::string_view units = "GMK";
  for (std::size_t i = 0; i < units.size(); ++i) {
    const std::size_t unit = std::size_t{1} << (30 - 10 * i);
    if (bytes % unit == 0) return fmt::format("{}{}", bytes / unit, units[i]);
  }
  return fmt::format("{}", bytes);
}

}  // namespace

const CollectiveFacts& facts_of(Collective collective) {
  static constexpr std::array kFacts{
#define BUSBW_COLLECTIVE(...)
#define BUSBW_FAST_COLLECTIVE(collective, ...) CollectiveFacts{.name = #collective, __VA_ARGS__},
#include "common/values/collectives.inc"
  };
  return kFacts[static_cast<std::size_t>(collective)];
}

std::string_view name(Method method) {
  static constexpr std::array<std::string_view, kMethods.size()> kNames{"nccl", "exchange", "two_shot", "direct"};
  return kNames[static_cast<std::size_t>(method)];
}

std::optional<Collective> collective_named(std::string_view text) {
  const auto found = std::ranges::find(kCollectives, text, [](Collective collective) { return name(collective); });
  return found == kCollectives.end() ? std::nullopt : std::optional(*found);
}

std::optional<Method> method_named(std::string_view text) {
  const auto found = std::ranges::find(kMethods, text, [](Method method) { return name(method); });
  return found == kMethods.end() ? std::nullopt : std::optional(*found);
}

bool supports(Collective collective, Method method) {
  const auto& methods = facts_of(collective).fast_methods;
  return method == Method::nccl || std::ranges::find(methods, name(method)) != methods.end();
}

Table::Table() : Table(std::vector<RangeList>(kListCount)) {}

Table::Table(std::vector<RangeList> lists) : lists_(std::move(lists)) {
  // Without lines for windows, calls in windows use the ranges for other buffers.
  for (std::size_t i = 0; i < lists_.size(); i += 2) {
    const RangeList& other_buffers = lists_[i];
    RangeList& windows = lists_[i + 1];
    windows.has_window_lines = !windows.ranges.empty();
    if (!windows.has_window_lines) windows.ranges = other_buffers.ranges;
  }
  for (RangeList& list : lists_) {
    list.ranges.push_back({.up_to_bytes = kNoEnd, .config = {}});  // delegates all larger sizes
    for (std::size_t bit_width = 0; bit_width < list.first_index.size(); ++bit_width) {
      // The smallest size of this bit width. A range that ends before it contains no size of this bit width.
      const std::size_t min_size = bit_width == 0 ? 0 : std::size_t{1} << (bit_width - 1);
      const auto first = std::ranges::lower_bound(list.ranges, min_size, {}, &Range::up_to_bytes);
      list.first_index[bit_width] = static_cast<std::uint16_t>(first - list.ranges.begin());
    }
  }
  hash_ = fnv1a(text());
}

Table Table::parse(std::string_view text, const std::string& source) {
  std::vector<RangeList> lists(kListCount);
  TableLineParser lines(source);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const auto line = lines.parse_next_line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line) continue;
    for (int ranks = line->min_ranks; ranks <= line->max_ranks; ++ranks) {
      auto& ranges = lists[list_index(*line->collective, ranks, line->is_for_symmetric_windows)].ranges;
      if (!ranges.empty() && ranges.back().up_to_bytes >= line->up_to_bytes) {
        lines.throw_error(fmt::format("{} of {} ranks{} already has a line up to {}", name(*line->collective), ranks,
                                      line->is_for_symmetric_windows ? " in windows" : "",
                                      table_size_text(ranges.back().up_to_bytes)),
                          "increase up_to= from line to line, so that no two ranges overlap");
      }
      ranges.push_back({line->up_to_bytes, {*line->method, line->blocks, line->threads}});
    }
  }
  return Table(std::move(lists));
}

Table Table::read(const std::string& path) { return parse(read_text(path), path); }

MethodConfig Table::look_up_config(Collective collective, int ranks, std::size_t size_bytes,
                                   bool in_windows) const noexcept {
  if (ranks < 0 || ranks > kMaxTableRanks) return {};
  const RangeList& list = lists_[list_index(collective, ranks, in_windows)];
  std::size_t index = list.first_index[std::bit_width(size_bytes)];
  while (list.ranges[index].up_to_bytes < size_bytes) ++index;
  return list.ranges[index].config;
}

bool Table::has_fast_range(Collective collective, int ranks) const noexcept {
  if (ranks < 0 || ranks > kMaxTableRanks) return false;
  const auto is_fast = [](const Range& range) { return range.config.method != Method::nccl; };
  return std::ranges::any_of(std::array{false, true}, [&](bool in_windows) {
    return std::ranges::any_of(lists_[list_index(collective, ranks, in_windows)].ranges, is_fast);
  });
}

bool Table::has_window_lines(Collective collective, int ranks) const noexcept {
  if (ranks < 0 || ranks > kMaxTableRanks) return false;
  return lists_[list_index(collective, ranks, true)].has_window_lines;
}

std::string Table::range_lines(const std::string& line_start, const std::vector<Range>& ranges) {
  std::string text;
  for (const auto& [up_to_bytes, config] : ranges) {
    if (up_to_bytes == kNoEnd) continue;
    text += fmt::format("{} up_to={} {}", line_start, table_size_text(up_to_bytes), name(config.method));
    if (config.method != Method::nccl) text += fmt::format(" blocks={} threads={}", config.blocks, config.threads);
    text += '\n';
  }
  return text;
}

std::string Table::text() const {
  std::string text;
  for (const Collective collective : kCollectives) {
    for (int ranks = 2; ranks <= kMaxTableRanks; ++ranks) {
      const auto& ordinary = lists_[list_index(collective, ranks, false)].ranges;
      const auto& in_windows = lists_[list_index(collective, ranks, true)].ranges;
      text += range_lines(fmt::format("{} ranks={}", name(collective), ranks), ordinary);
      if (in_windows != ordinary)
        text += range_lines(fmt::format("{} ranks={} windows", name(collective), ranks), in_windows);
    }
  }
  return text;
}

}  // namespace busbw::fastpath
