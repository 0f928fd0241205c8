#include "fastpath/table.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>

#include "support/descriptor.hpp"
#include "support/error.hpp"
#include "support/fnv1a.hpp"
#include "support/printable.hpp"
#include "support/quantity.hpp"

namespace busbw::fastpath {
namespace {

constexpr std::size_t kMostTextBytes = 1 << 20;
constexpr std::size_t kNoEnd = std::numeric_limits<std::size_t>::max();
constexpr std::string_view kForm = "all_reduce ranks=4 up_to=64K exchange blocks=8 threads=512";

constexpr std::size_t kLadders = kCollectives.size() * (Table::kMostRanks + 1);

std::size_t ladder(Collective collective, int ranks) {
  return static_cast<std::size_t>(collective) * (Table::kMostRanks + 1) + static_cast<std::size_t>(ranks);
}

/// A line of a table, understood.
struct Line {
  std::optional<Collective> collective;
  std::optional<Method> method;
  int least_ranks = 0;
  int most_ranks = 0;
  std::size_t up_to_bytes = 0;
  int blocks = 0;
  int threads = 0;
};

/// The number, where `text` is one from `least` to `most`.
std::optional<int> number_between(std::string_view text, int least, int most) {
  const auto value = parse_integer(text);
  if (!value || *value < least || *value > most) return std::nullopt;
  return static_cast<int>(*value);
}

class Parser {
 public:
  explicit Parser(const std::string& source) : source_(source) {}

  /// Nothing where the line is empty or a comment.
  std::optional<Line> next(std::string_view text) {
    ++number_;
    text = text.substr(0, text.find('#'));
    Line line;
    bool is_empty = true;
    while (!text.empty()) {
      const std::string_view word = take_word(text);
      if (word.empty()) continue;
      is_empty = false;
      understand(word, line);
    }
    if (is_empty) return std::nullopt;
    require_whole(line);
    return line;
  }

  [[noreturn]] void refuse(const std::string& what, const std::string& remedy) const {
    throw UsageError(fmt::format("{}:{}: {}; {}", shown(source_), number_, what, remedy));
  }

 private:
  static std::string_view take_word(std::string_view& text) {
    constexpr std::string_view blank = " \t\r";
    text.remove_prefix(std::min(text.find_first_not_of(blank), text.size()));
    const std::string_view word = text.substr(0, text.find_first_of(blank));
    text.remove_prefix(word.size());
    return word;
  }

  void understand(std::string_view word, Line& line) const {
    const std::size_t equals = word.find('=');
    if (equals != std::string_view::npos) {
      assign(word, word.substr(0, equals), word.substr(equals + 1), line);
    } else if (!line.collective) {
      line.collective = collective_named(word);
      if (!line.collective) {
        refuse(fmt::format("\"{}\" is no collective of the fast path", shown(word)),
               "begin the line with all_reduce, all_gather, reduce_scatter, broadcast or alltoall");
      }
    } else {
      const auto method = method_named(word);
      if (!method) refuse(fmt::format("\"{}\" is no method", shown(word)), "give nccl, exchange or two_shot");
      if (line.method) refuse("it has two methods", "give one a line");
      line.method = method;
    }
  }

  void assign(std::string_view word, std::string_view key, std::string_view value, Line& line) const {
    if (key == "ranks") {
      once(line.most_ranks, key);
      const std::size_t dash = value.find('-');
      const bool is_range = dash != std::string_view::npos;
      const auto least = number_between(value.substr(0, dash), 2, Table::kMostRanks);
      const auto most = is_range ? number_between(value.substr(dash + 1), 2, Table::kMostRanks) : least;
      if (!least || !most || *least > *most) {
        refuse(fmt::format("\"{}\" is no number of ranks", shown(word)),
               fmt::format("give a number from 2 to {} or a range such as ranks=2-8", Table::kMostRanks));
      }
      line.least_ranks = *least;
      line.most_ranks = *most;
    } else if (key == "up_to") {
      once(line.up_to_bytes, key);
      const auto bytes = parse_size_bytes(value);
      if (!bytes || *bytes == 0) {
        refuse(fmt::format("\"{}\" is no size", shown(word)), "give bytes, or K, M or G, such as up_to=64K");
      }
      line.up_to_bytes = *bytes;
    } else if (key == "blocks") {
      once(line.blocks, key);
      const auto blocks = number_between(value, 1, Choice::kMostBlocks);
      if (!blocks) {
        refuse(fmt::format("\"{}\" is no number of blocks", shown(word)),
               fmt::format("give one from 1 to {}", Choice::kMostBlocks));
      }
      line.blocks = *blocks;
    } else if (key == "threads") {
      once(line.threads, key);
      const auto threads = number_between(value, 32, Choice::kMostThreads);
      if (!threads || *threads % 32 != 0) {
        refuse(fmt::format("\"{}\" is no number of threads", shown(word)),
               fmt::format("give a multiple of 32 up to {}", Choice::kMostThreads));
      }
      line.threads = *threads;
    } else {
      refuse(fmt::format("\"{}\" is not known here", shown(word)), "give ranks=, up_to=, blocks= and threads=");
    }
  }

  template <typename Value>
  void once(const Value& value, std::string_view key) const {
    if (value != 0) refuse(fmt::format("{}= stands twice in it", key), "give it once");
  }

  void require_whole(const Line& line) const {
    const bool has_shape = line.blocks != 0 || line.threads != 0;
    if (!line.collective || !line.method || line.most_ranks == 0 || line.up_to_bytes == 0) {
      refuse("something is missing", fmt::format("write a line as in \"{}\"", kForm));
    }
    if (!can(*line.collective, *line.method)) {
      refuse(fmt::format("{} cannot do {}", name(*line.method), name(*line.collective)), "give nccl or exchange");
    }
    if (*line.method == Method::handed_over && has_shape) {
      refuse("nccl chooses its blocks and threads itself", "leave them out");
    }
    if (*line.method != Method::handed_over && (line.blocks == 0 || line.threads == 0)) {
      refuse(fmt::format("{} has no blocks= or no threads=", name(*line.method)),
             fmt::format("write a line as in \"{}\"", kForm));
    }
  }

  const std::string& source_;
  int number_ = 0;
};

std::string contents(const std::string& path) {
  const auto refuse = [&path](const std::string& why) {
    throw UsageError(
        fmt::format("cannot read the table {}: {}; name one that busbw fastpath tune wrote", shown(path), why));
  };
  // A pipe that nobody writes to would be waited for.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status{};
  if (!file.is_open() || fstat(file.number(), &status) != 0) refuse(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) refuse("it is no regular file");
  std::string text(kMostTextBytes + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.number(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(std::strerror(errno));
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > kMostTextBytes) refuse("it has more than 1 MiB");
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
    case Method::handed_over: return "nccl";
    case Method::exchange: return "exchange";
    case Method::two_shot: return "two_shot";
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

bool can(Collective collective, Method method) {
  return method != Method::two_shot || collective == Collective::all_reduce || collective == Collective::broadcast;
}

Table::Table() : Table(std::vector<Ladder>(kLadders)) {}

Table::Table(std::vector<Ladder> ladders) : ladders_(std::move(ladders)) {
  for (Ladder& each : ladders_) {
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
  std::vector<Ladder> ladders(kLadders);
  Parser parser(source);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const auto line = parser.next(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line) continue;
    for (int ranks = line->least_ranks; ranks <= line->most_ranks; ++ranks) {
      auto& ranges = ladders[ladder(*line->collective, ranks)].ranges;
      if (!ranges.empty() && ranges.back().up_to_bytes >= line->up_to_bytes) {
        parser.refuse(fmt::format("{} of {} ranks has a line up to {} already", name(*line->collective), ranks,
                                  size_word(ranges.back().up_to_bytes)),
                      "let up_to= grow from line to line, so that no two ranges overlap");
      }
      ranges.push_back({line->up_to_bytes, {*line->method, line->blocks, line->threads}});
    }
  }
  return Table(std::move(ladders));
}

Table Table::read(const std::string& path) { return parse(contents(path), path); }

Choice Table::choose(Collective collective, int ranks, std::size_t size_bytes) const noexcept {
  if (ranks < 0 || ranks > kMostRanks) return {};
  const Ladder& found = ladders_[ladder(collective, ranks)];
  std::size_t index = found.first[std::bit_width(size_bytes)];
  while (found.ranges[index].up_to_bytes < size_bytes) ++index;
  return found.ranges[index].choice;
}

std::string Table::text() const {
  std::string text;
  for (const Collective collective : kCollectives) {
    for (int ranks = 2; ranks <= kMostRanks; ++ranks) {
      for (const auto& [up_to_bytes, choice] : ladders_[ladder(collective, ranks)].ranges) {
        if (up_to_bytes == kNoEnd) continue;
        text += fmt::format("{} ranks={} up_to={} {}", name(collective), ranks, size_word(up_to_bytes),
                            name(choice.method));
        if (choice.method != Method::handed_over) {
          text += fmt::format(" blocks={} threads={}", choice.blocks, choice.threads);
        }
        text += '\n';
      }
    }
  }
  return text;
}

}  // namespace busbw::fastpath
