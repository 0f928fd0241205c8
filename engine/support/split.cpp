#include "support/split.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <string_view>

#include "support/error.hpp"
#include "support/printable.hpp"

namespace busbw {
namespace {

struct Spelling {
  std::string_view text;
  Split::Op op;
};
constexpr std::array<Spelling, 8> kSpellings{{{"AND", Split::Op::bit_and},
                                              {"&", Split::Op::bit_and},
                                              {"OR", Split::Op::bit_or},
                                              {"|", Split::Op::bit_or},
                                              {"MOD", Split::Op::modulo},
                                              {"%", Split::Op::modulo},
                                              {"DIV", Split::Op::divide},
                                              {"/", Split::Op::divide}}};

bool starts_with_ignoring_case(std::string_view text, std::string_view start) {
  return text.size() >= start.size() && std::ranges::equal(text.substr(0, start.size()), start, [](char a, char b) {
           return std::toupper(static_cast<unsigned char>(a)) == b;
         });
}

std::optional<int> number(std::string_view text, int base) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::optional<int> number_with_prefix(std::string_view text) {
  if (starts_with_ignoring_case(text, "0X")) return number(text.substr(2), 16);
  if (starts_with_ignoring_case(text, "0B")) return number(text.substr(2), 2);
  if (text.size() > 1 && text.front() == '0') return std::nullopt;  // octal in nccl-tests, decimal to most people
  return number(text, 10);
}

}  // namespace

int Split::colour(int process) const {
  switch (op) {
    case Op::none: return 0;
    case Op::bit_and: return process & operand;
    case Op::bit_or: return process | operand;
    case Op::modulo: return process % operand;
    case Op::divide: return process / operand;
  }
  return 0;
}

std::map<int, std::vector<int>> Split::groups(int processes, int ranks_per_process) const {
  std::map<int, std::vector<int>> groups;
  for (int rank = 0; rank < processes * ranks_per_process; ++rank)
    groups[colour(rank / ranks_per_process)].push_back(rank);
  return groups;
}

Split parse_split(const std::optional<std::string>& mask, const std::optional<std::string>& split) {
  if (mask) {
    const std::string_view digits = starts_with_ignoring_case(*mask, "0X") ? std::string_view(*mask).substr(2) : *mask;
    if (const auto value = number(digits, 16)) return {Split::Op::bit_and, *value};
    throw UsageError(
        fmt::format("NCCL_TESTS_SPLIT_MASK={}: allowed is a hexadecimal number such as 0x7", shown(*mask)));
  }
  if (!split) return {};
  for (const Spelling& spelling : kSpellings) {
    if (!starts_with_ignoring_case(*split, spelling.text)) continue;
    std::string_view rest = std::string_view(*split).substr(spelling.text.size());
    while (!rest.empty() && std::isspace(static_cast<unsigned char>(rest.front()))) rest.remove_prefix(1);
    const auto operand = number_with_prefix(rest);
    const bool divides = spelling.op == Split::Op::modulo || spelling.op == Split::Op::divide;
    if (operand && !(divides && *operand == 0)) return {spelling.op, *operand};
  }
  throw UsageError(
      fmt::format("NCCL_TESTS_SPLIT={}: allowed are AND, OR, MOD and DIV (or & | % /) followed by a number, "
                  "such as \"MOD 8\" or \"AND 0x7\"",
                  shown(*split)));
}

}  // namespace busbw
