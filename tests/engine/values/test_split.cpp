#include "values/split.hpp"

#include <string>
#include <vector>

#include "support_errors.hpp"

using namespace busbw;

namespace {

Split from_split(const char* text) { return parse_split(std::nullopt, text); }
Split from_mask(const char* text) { return parse_split(text, std::nullopt); }

/// The colors of the first processes.
std::vector<int> colors(const Split& split, int processes = 8) {
  std::vector<int> all;
  for (int process = 0; process < processes; ++process) all.push_back(split.color(process));
  return all;
}
using Colors = std::vector<int>;

}  // namespace

TEST_CASE("split: without the variables all processes are one group") {
  CHECK(colors(parse_split(std::nullopt, std::nullopt)) == Colors{0, 0, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("split: AND, OR, MOD and DIV") {
  CHECK(colors(from_split("AND 0x3")) == Colors{0, 1, 2, 3, 0, 1, 2, 3});
  CHECK(colors(from_split("OR 1")) == Colors{1, 1, 3, 3, 5, 5, 7, 7});
  CHECK(colors(from_split("MOD 3")) == Colors{0, 1, 2, 0, 1, 2, 0, 1});
  CHECK(colors(from_split("DIV 4")) == Colors{0, 0, 0, 0, 1, 1, 1, 1});
}

TEST_CASE("split: symbols, lower case, and any space before the number") {
  for (const char* text : {"AND 2", "and 2", "And2", "& 2", "&2", "AND   2", "AND\t2"})
    CHECK(colors(from_split(text)) == colors({Split::Op::bit_and, 2}));
  for (const char* text : {"OR 2", "or2", "|2", "| 2"})
    CHECK(colors(from_split(text)) == colors({Split::Op::bit_or, 2}));
  for (const char* text : {"MOD 2", "mod2", "%2", "% 2"})
    CHECK(colors(from_split(text)) == colors({Split::Op::modulo, 2}));
  for (const char* text : {"DIV 2", "div2", "/2", "/ 2"})
    CHECK(colors(from_split(text)) == colors({Split::Op::divide, 2}));
}

TEST_CASE("split: numbers are decimal, hexadecimal with 0x, or binary with 0b") {
  for (const char* text : {"MOD 16", "MOD 0x10", "MOD 0X10", "MOD 0b10000", "MOD 0B10000"})
    CHECK(from_split(text).operand == 16);
  CHECK(from_split("AND 0").operand == 0);
  CHECK(from_split("AND 0xfF").operand == 255);
}

TEST_CASE("split: the mask is hexadecimal, with or without 0x, and comes first") {
  CHECK(from_mask("0x7").operand == 7);
  CHECK(from_mask("10").operand == 16);
  CHECK(from_mask("fF").operand == 255);
  CHECK(from_mask("0").op == Split::Op::bit_and);
  const Split both = parse_split("3", "MOD 2");
  CHECK(both.op == Split::Op::bit_and);
  CHECK(both.operand == 3);
}

TEST_CASE("split: a mask is limited to the bits of a process number, and blanks around it are ignored") {
  const Colors own{0, 1, 2, 3, 4, 5, 6, 7};
  for (const char* text : {"0xffffffff", "80000007", "0xFFFFFFFFFFFFFFFF", "123456789abcdef7"}) {
    CAPTURE(text);
    CHECK(colors(from_mask(text)) == own);
  }
  CHECK(colors(from_mask("0x100000000")) == Colors(8, 0));
  for (const char* text : {"7 ", " 7", "\t0x7\n"}) CHECK(from_mask(text).operand == 7);
  CHECK(colors(from_split("AND 0xffffffff")) == own);
  CHECK(colors(from_split("AND 4294967295")) == own);
  CHECK(from_split("MOD 8 ").operand == 8);
  CHECK(from_split("DIV 0x7fffffff").operand == 0x7fffffff);
}

TEST_CASE("split: the error for unclear input names variable, value and allowed values") {
  // nccl-tests reads a leading zero as octal, and makes one group of every value that it cannot parse.
  for (const char* text :
       {"",       " ",       "MOD",     "MOD x",  "MOD -1",          "MOD 0",         "DIV 0",    "% 0",
        "/0x0",   "XOR 1",   "8",       " MOD 8", "MOD 0x80000000",  "MOD 8x",        "MOD 1.5",  "MOD 0x",
        "MOD 0b", "MOD 0b2", "MOD 010", "AND 00", "MOD 99999999999", "OR 0x80000000", "MODULO 8", "AND 1 2"}) {
    CAPTURE(text);
    check_names(sentence_of<UsageError>([&] { from_split(text); }),
                {std::string("NCCL_TESTS_SPLIT=") + text, "AND", "OR", "MOD", "DIV", "0x7"});
  }
  for (const char* text : {"", " ", "x", "0x", "-1", "7 7", "0x10000000000000000", "0b1x", "AND 7"}) {
    CAPTURE(text);
    check_names(sentence_of<UsageError>([&] { from_mask(text); }),
                {std::string("NCCL_TESTS_SPLIT_MASK=") + text, "hexadecimal", "0x7"});
  }
}
