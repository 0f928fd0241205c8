// Parses NCCL_TESTS_SPLIT_MASK and NCCL_TESTS_SPLIT as nccl-tests does, but refuses octal numbers.
#include "values/split.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <limits>
#include <string_view>

#include "common/support/error.hpp"
#include "common/support/printable.hpp"
#include "common/values/quantity.hpp"

namespace busbw {
namespace {

struct OperatorSpelling {
  std::string_view text;
  Split::Op op;
};
constexpr std::array<OperatorSpelling, 8> kSpellings{{
    {"AND", Split::Op::bit_and},
    {"&", Split::Op::bit_and},
    {"OR", Split::Op::bit_or},
    {"|", Split::Op::bit_or},
    {"MOD", Split::Op::modulo},
    {"%", Split::Op::modulo},
    {"DIV", Split::Op::divide},
    {"/", Split::Op::divide},
}};

bool starts_with_ignoring_case(std::string_view text, std::string_view upper_case_start) {
  return text.size() >= upper_case_start.size() &&
         std::ranges::equal(text.substr(0, upper_case_start.size()), upper_case_start,
                            [](char a, char b) { return std::toupper(static_cast<unsigned char>(a)) == b; });
}

std::string_view without_blanks_around(std::string_view text) {
  const auto is_blank = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

/// Parses a number that is hexadecimal after 0x, binary after 0b, otherwise decimal.
std::optional<std::uint64_t> parse_prefixed_number(std::string_view text) {
  if (starts_with_ignoring_case(text, "0X")) return parse_digits(text.substr(2), 16);
  if (starts_with_ignoring_case(text, "0B")) return parse_digits(text.substr(2), 2);
  if (text.size() > 1 && text.front() == '0')
    return std::nullopt;  // ambiguous: octal in nccl-tests, decimal to most users
  return parse_digits(text, 10);
}

constexpr std::uint64_t kMaxOperand = std::numeric_limits<int>::max();

/// Operand of AND. Process numbers are ints, so higher bits have no effect. Other operators refuse such bits.
int mask_of(std::uint64_t bits) { return static_cast<int>(bits & kMaxOperand); }

}  // namespace

int Split::color(int process) const {
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
    groups[color(rank / ranks_per_process)].push_back(rank);
  return groups;
}

Split parse_split(const std::optional<std::string>& mask, const std::optional<std::string>& split) {
  if (mask) {
    std::string_view digits = without_blanks_around(*mask);
    if (starts_with_ignoring_case(digits, "0X")) digits.remove_prefix(2);
    if (const auto value = parse_digits(digits, 16)) return {Split::Op::bit_and, mask_of(*value)};
    throw UsageError(
        fmt::format("NCCL_TESTS_SPLIT_MASK={}: allowed: a hexadecimal number such as 0x7", printable_value(*mask)));
  }
  if (!split) return {};
  for (const OperatorSpelling& spelling : kSpellings) {
    if (!starts_with_ignoring_case(*split, spelling.text)) continue;
    const auto operand =
        parse_prefixed_number(without_blanks_around(std::string_view(*split).substr(spelling.text.size())));
    if (!operand) break;
    if (spelling.op == Split::Op::bit_and) return {spelling.op, mask_of(*operand)};
    const bool divides = spelling.op == Split::Op::modulo || spelling.op == Split::Op::divide;
    const bool divides_by_zero = divides && *operand == 0;
    if (*operand > kMaxOperand || divides_by_zero) break;
    return {spelling.op, static_cast<int>(*operand)};
  }
  throw UsageError(
      fmt::format("NCCL_TESTS_SPLIT={}: allowed: AND, OR, MOD or DIV (or & | % /) followed by a number, "
                  "such as \"MOD 8\" or \"AND 0x7\"",
                  printable_value(*split)));
}

}  // namespace busbw
