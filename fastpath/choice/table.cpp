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

constexpr std::size_t kMaxTextBytes = 1 << 20;
constexpr std::size_t kNoEnd = std::numeric_limits<std::size_t>::max();

constexpr std::size_t kLadders = 2 * kCollectives.size() * (Table::kMaxTableRanks + 1);

std::size_t ladder(Collective collective, int ranks, bool in_windows) {
  const auto both = static_cast<std::size_t>(collective) * (Table::kMaxTableRanks + 1) + static_cast<std::size_t>(ranks);
  return 2 * both + (in_windows ? 1 : 0);
}

std::string contents(const std::string& path) {
  const auto refuse = [&path](const std::string& why) {
    throw UsageError(
        fmt::format("cannot read the table {}: {}; name one that busbw fastpath tune wrote", printable_value(path), why));
  };
  // A pipe that nobody writes to would be waited for.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status{};
  if (!file.is_open() || fstat(file.number(), &status) != 0) refuse(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) refuse("it is no regular file");
  std::string text(kMaxTextBytes + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.number(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(std::strerror(errno));
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > kMaxTextBytes) refuse("it has more than 1 MiB");
  text.resize(size);
  return text;
}

std::string size_word(std::size_t bytes) {
  constexpr std::string_view units = "GMK";
  for (std::size_t i = 0; i < units.size(); ++i) {
    const std::size_t unit = std::size_t{1} << (30 - 10 * i);
    if (bytes % unit == 0) return fmt::format("{}{}", bytes / unit, units[i]);
  }
  return fmt::format("{}", bytes);
}

}  // namespace

std::string_view name(Collective collective) {
  switch (collective) {
    case Collective::all_reduce: return "all_reduce";
    case Collective::all_gather: return "all_gather";
    case Collective::reduce_scatter: return "reduce_scatter";
    case Collective::broadcast: return "broadcast";
    case Collective::alltoall: return "alltoall";
  }
  return "";
}

std::string_view name(Method method) {
  switch (method) {
    case Method::nccl: return "nccl";
    case Method::exchange: return "exchange";
    case Method::two_shot: return "two_shot";
    case Method::direct: return "direct";
  }
  return "";
}

std::optional<Collective> collective_named(std::string_view text) {
  const auto found = std::ranges::find(kCollectives, text, [](Collective each) { return name(each); });
  return found == kCollectives.end() ? std::nullopt : std::optional(*found);
}

std::optional<Method> method_named(std::string_view text) {
  const auto found = std::ranges::find(kMethods, text, [](Method each) { return name(each); });
  return found == kMethods.end() ? std::nullopt : std::optional(*found);
}

bool supports(Collective collective, Method method) {
  if (method == Method::two_shot) return collective == Collective::all_reduce || collective == Collective::broadcast;
  if (method == Method::direct) return collective != Collective::broadcast && collective != Collective::alltoall;
  return true;
}

Table::Table() : Table(std::vector<RangeList>(kLadders)) {}

Table::Table(std::vector<RangeList> ladders) : ladders_(std::move(ladders)) {
  for (std::size_t i = 1; i < ladders_.size(); i += 2)
    if (ladders_[i].ranges.empty())
      ladders_[i].ranges = ladders_[i - 1].ranges;
    else
      ladders_[i].is_own = true;
  for (RangeList& each : ladders_) {
    each.ranges.push_back({kNoEnd, {}});
    for (std::size_t digits = 0; digits < each.first.size(); ++digits) {
      const std::size_t least = digits == 0 ? 0 : std::size_t{1} << (digits - 1);
      const auto found = std::ranges::lower_bound(each.ranges, least, {}, &Range::up_to_bytes);
      each.first[digits] = static_cast<std::uint16_t>(found - each.ranges.begin());
    }
  }
  hash_ = fnv1a(text());
}

Table Table::parse(std::string_view text, const std::string& source) {
  std::vector<RangeList> ladders(kLadders);
  TableLineParser lines(source);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const auto line = lines.next(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line) continue;
    for (int ranks = line->min_ranks; ranks <= line->max_ranks; ++ranks) {
      auto& ranges = ladders[ladder(*line->collective, ranks, line->is_for_windows)].ranges;
      if (!ranges.empty() && ranges.back().up_to_bytes >= line->up_to_bytes) {
        lines.throw_error(fmt::format("{} of {} ranks{} has a line up to {} already", name(*line->collective), ranks,
                                 line->is_for_windows ? " in windows" : "", size_word(ranges.back().up_to_bytes)),
                     "let up_to= grow from line to line, so that no two ranges overlap");
      }
      ranges.push_back({line->up_to_bytes, {*line->method, line->blocks, line->threads}});
    }
  }
  return Table(std::move(ladders));
}

Table Table::read(const std::string& path) { return parse(contents(path), path); }

MethodConfig Table::choose(Collective collective, int ranks, std::size_t size_bytes, bool in_windows) const noexcept {
  if (ranks < 0 || ranks > kMaxTableRanks) return {};
  const RangeList& found = ladders_[ladder(collective, ranks, in_windows)];
  std::size_t index = found.first[std::bit_width(size_bytes)];
  while (found.ranges[index].up_to_bytes < size_bytes) ++index;
  return found.ranges[index].choice;
}

bool Table::selects_any(Collective collective, int ranks) const noexcept {
  if (ranks < 0 || ranks > kMaxTableRanks) return false;
  const auto does = [](const Range& range) { return range.choice.method != Method::nccl; };
  return std::ranges::any_of(std::array{false, true}, [&](bool in_windows) {
    return std::ranges::any_of(ladders_[ladder(collective, ranks, in_windows)].ranges, does);
  });
}

bool Table::regards_windows(Collective collective, int ranks) const noexcept {
  if (ranks < 0 || ranks > kMaxTableRanks) return false;
  return ladders_[ladder(collective, ranks, true)].is_own;
}

std::string Table::lines(const std::string& begin, const std::vector<Range>& ranges) {
  std::string text;
  for (const auto& [up_to_bytes, choice] : ranges) {
    if (up_to_bytes == kNoEnd) continue;
    text += fmt::format("{} up_to={} {}", begin, size_word(up_to_bytes), name(choice.method));
    if (choice.method != Method::nccl)
      text += fmt::format(" blocks={} threads={}", choice.blocks, choice.threads);
    text += '\n';
  }
  return text;
}

std::string Table::text() const {
  std::string text;
  for (const Collective collective : kCollectives) {
    for (int ranks = 2; ranks <= kMaxTableRanks; ++ranks) {
      const auto& everywhere = ladders_[ladder(collective, ranks, false)].ranges;
      const auto& in_windows = ladders_[ladder(collective, ranks, true)].ranges;
      text += lines(fmt::format("{} ranks={}", name(collective), ranks), everywhere);
      if (in_windows != everywhere)
        text += lines(fmt::format("{} ranks={} windows", name(collective), ranks), in_windows);
    }
  }
  return text;
}

}  // namespace busbw::fastpath
