#include "rendezvous/world/hostlist.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <utility>

#include "common/support/error.hpp"
#include "common/support/printable.hpp"

namespace busbw {
namespace {

constexpr std::size_t kMaxNameBytes = 255;
constexpr std::size_t kMaxDigits = 18;  // always fits into 64 bits

[[noreturn]] void refuse(std::string_view list, std::string_view problem) {
  throw UsageError(fmt::format("the list of hosts \"{}\" {}; allowed are names such as n[1-3,07-09],gpu-a[01-02]-x",
                               printable_value(list), problem));
}

struct Number {
  std::uint64_t value;
  std::size_t width;
};

Number number(std::string_view text, std::string_view list) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.size() > kMaxDigits || error != std::errc{} || end != text.data() + text.size())
    refuse(list, "has something other than numbers in brackets");
  return {value, text.size()};
}

/// Calls visit(part) for each comma-separated part of `text`. Commas in brackets do not separate.
template <class Visit>
void for_each_part(std::string_view text, std::string_view list, Visit visit) {
  bool inside = false;
  std::size_t start = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[' && std::exchange(inside, true)) refuse(list, "has nested brackets");
    if (i < text.size() && text[i] == ']' && !std::exchange(inside, false)) refuse(list, "has a ] without a [");
    if (i < text.size() && (text[i] != ',' || inside)) continue;
    if (inside) refuse(list, "has a [ without a ]");
    if (i == start) refuse(list, "has an empty name");
    visit(text.substr(start, i - start));
    start = i + 1;
  }
}

/// Expands "1-3,07-09" to "1", "2", "3", "07", "08", "09".
std::vector<std::string> numbers_of(std::string_view ranges, std::string_view list) {
  std::vector<std::string> all;
  for_each_part(ranges, list, [&](std::string_view range) {
    const std::size_t dash = range.find('-');
    const Number first = number(range.substr(0, dash), list);
    const Number last = dash == range.npos ? first : number(range.substr(dash + 1), list);
    if (last.value < first.value) refuse(list, "has a descending range");
    if (last.value - first.value >= kMaxHosts - all.size())
      refuse(list, fmt::format("names more than {} hosts", kMaxHosts));
    for (std::uint64_t value = first.value; value <= last.value; ++value)
      all.push_back(fmt::format("{:0{}}", value, first.width));
  });
  return all;
}

/// Expands one name and appends the results to `hosts`.
void expand_name(std::string_view name, std::string_view list, std::vector<std::string>& hosts) {
  std::vector<std::string> stems{""};
  const auto extend = [&](const std::vector<std::string>& endings) {
    if (stems.size() * endings.size() > kMaxHosts - hosts.size())
      refuse(list, fmt::format("names more than {} hosts", kMaxHosts));
    std::vector<std::string> longer;
    for (const std::string& stem : stems)
      for (const std::string& ending : endings) {
        longer.push_back(stem + ending);
        if (longer.back().size() > kMaxNameBytes) refuse(list, "has a name of more than 255 characters");
      }
    stems = std::move(longer);
  };
  while (!name.empty()) {
    const std::size_t open = name.find('[');
    if (open != 0) extend({std::string(name.substr(0, open))});
    if (open == name.npos) break;
    const std::size_t close = name.find(']', open);
    extend(numbers_of(name.substr(open + 1, close - open - 1), list));
    name.remove_prefix(close + 1);
  }
  hosts.insert(hosts.end(), stems.begin(), stems.end());
}

}  // namespace

std::vector<std::string> expand_hostlist(std::string_view list) {
  for (const unsigned char letter : list)
    if (letter <= ' ' || letter == 0x7f) refuse("", "has a blank or a control character");
  std::vector<std::string> hosts;
  for_each_part(list, list, [&](std::string_view name) { expand_name(name, list, hosts); });
  return hosts;
}

}  // namespace busbw
