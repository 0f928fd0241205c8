// Expands a list of hosts in Slurm's syntax: "n[1-3,07]" has the hosts n1, n2, n3 and n07.
#include "rendezvous/world/hostlist.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "common/support/error.hpp"
#include "common/support/printable.hpp"
#include "common/values/quantity.hpp"

namespace busbw {
namespace {

constexpr std::size_t kMaxNameBytes = 255;
constexpr std::size_t kMaxDigits = 18;  // a number of so many digits fits into 64 bits

[[noreturn]] void throw_invalid(std::string_view hostlist, std::string_view problem) {
  throw UsageError(fmt::format("the list of hosts \"{}\" {}; allowed are names such as n[1-3,07-09],gpu-a[01-02]-x",
                               printable_value(hostlist), problem));
}

/// A number of a range. The count of digits matters, because "07" and "7" are different hosts.
struct PaddedNumber {
  std::uint64_t value;
  std::size_t digits;
};

PaddedNumber parse_padded_number(std::string_view text, std::string_view hostlist) {
  const auto value = parse_digits(text);
  if (text.size() > kMaxDigits || !value) throw_invalid(hostlist, "has something other than numbers in brackets");
  return {*value, text.size()};
}

/// Calls visit(part) for each comma-separated part of `text`. Commas in brackets do not separate. For messages,
/// `part_noun` says what a part is, and `hostlist` is the whole list.
template <class Visit>
void for_each_part(std::string_view text, const char* part_noun, std::string_view hostlist, Visit visit) {
  bool in_brackets = false;
  std::size_t part_start = 0;
  const auto end_part = [&](std::size_t end) {
    if (end == part_start) throw_invalid(hostlist, fmt::format("has an empty {}", part_noun));
    visit(text.substr(part_start, end - part_start));
    part_start = end + 1;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') {
      if (in_brackets) throw_invalid(hostlist, "has nested brackets");
      in_brackets = true;
    } else if (text[i] == ']') {
      if (!in_brackets) throw_invalid(hostlist, "has a ] without a [");
      in_brackets = false;
    } else if (text[i] == ',' && !in_brackets) {
      end_part(i);
    }
  }
  if (in_brackets) throw_invalid(hostlist, "has a [ without a ]");
  end_part(text.size());
}

/// Expands the text in brackets: "1-3,07-09" becomes "1", "2", "3", "07", "08", "09".
std::vector<std::string> expand_ranges(std::string_view ranges, std::string_view hostlist) {
  std::vector<std::string> numbers;
  for_each_part(ranges, "range", hostlist, [&](std::string_view range) {
    const std::size_t dash = range.find('-');
    const PaddedNumber first = parse_padded_number(range.substr(0, dash), hostlist);
    const PaddedNumber last = dash == range.npos ? first : parse_padded_number(range.substr(dash + 1), hostlist);
    if (last.value < first.value) throw_invalid(hostlist, "has a descending range");
    if (last.value - first.value >= kMaxHosts - numbers.size())
      throw_invalid(hostlist, fmt::format("names more than {} hosts", kMaxHosts));
    for (std::uint64_t value = first.value; value <= last.value; ++value)
      numbers.push_back(fmt::format("{:0{}}", value, first.digits));
  });
  return numbers;
}

/// Expands a name such as "r[1-2]n[1-2]" and appends its hosts to `hosts`: r1n1, r1n2, r2n1, r2n2.
void expand_name(std::string_view name, std::string_view hostlist, std::vector<std::string>& hosts) {
  std::vector<std::string> prefixes{""};  // all expansions of the text that is already removed from `name`
  const auto append_each = [&](const std::vector<std::string>& suffixes) {
    if (prefixes.size() * suffixes.size() > kMaxHosts - hosts.size())
      throw_invalid(hostlist, fmt::format("names more than {} hosts", kMaxHosts));
    std::vector<std::string> combined;
    for (const std::string& prefix : prefixes)
      for (const std::string& suffix : suffixes) {
        combined.push_back(prefix + suffix);
        if (combined.back().size() > kMaxNameBytes) throw_invalid(hostlist, "has a name of more than 255 characters");
      }
    prefixes = std::move(combined);
  };
  while (!name.empty()) {
    const std::size_t open = name.find('[');
    if (open != 0) append_each({std::string(name.substr(0, open))});
    if (open == name.npos) break;
    const std::size_t close = name.find(']', open);
    append_each(expand_ranges(name.substr(open + 1, close - open - 1), hostlist));
    name.remove_prefix(close + 1);
  }
  hosts.insert(hosts.end(), prefixes.begin(), prefixes.end());
}

}  // namespace

std::vector<std::string> expand_hostlist(std::string_view list) {
  for (const unsigned char letter : list)
    if (letter <= ' ' || letter == 0x7f) throw_invalid(list, "has a blank or a control character");
  std::vector<std::string> hosts;
  for_each_part(list, "name", list, [&](std::string_view name) { expand_name(name, list, hosts); });
  return hosts;
}

}  // namespace busbw
