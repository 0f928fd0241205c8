#include "common/values/quantity.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "support_random.hpp"

using namespace busbw;

namespace {

/// Parses a size as nccl-tests does: a number read by scanf and a unit letter. Negative if nccl-tests rejects the text.
/// nccl-tests then truncates the product to whole bytes.
double as_nccl_tests_reads_it(const std::string& text) {
  double number = 0;
  char unit[2] = "";
  const int found = std::sscanf(text.c_str(), "%lf %1s", &number, unit);
  if (found < 1) return -1;
  switch (found == 2 ? unit[0] : '\0') {
    case '\0': return number;
    case 'K':
    case 'k': return number * 1024;
    case 'M':
    case 'm': return number * 1024 * 1024;
    case 'G':
    case 'g': return number * 1024 * 1024 * 1024;
    default: return -1;
  }
}

}  // namespace

TEST_CASE("parse_size_bytes: the sizes that engine and command have in common") {
  std::ifstream file(BUSBW_TEST_DIR "/sizes.txt");
  int cases = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    CAPTURE(line);
    const std::size_t end = line.rfind('"');
    const auto bytes = parse_size_bytes(line.substr(1, end - 1));
    CHECK((bytes ? std::to_string(*bytes) : "invalid") == line.substr(end + 2));
    ++cases;
  }
  CHECK(cases > 50);
  CHECK_FALSE(parse_size_bytes("8\n"));
  CHECK_FALSE(parse_size_bytes("\t8"));
}

TEST_CASE("parse_size_bytes: accepted text has the same value as in nccl-tests, which does not know T and B") {
  Random random(1);
  int accepted = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string text = random.text("0123456789.eE+-KMGkmgTQxBinfa ", 3);
    text = random.text("0123456789.", 4) + text;
    const auto bytes = parse_size_bytes(text);
    const double expected = as_nccl_tests_reads_it(text);
    if (!bytes || expected < 0) continue;
    ++accepted;
    CAPTURE(text);
    REQUIRE(static_cast<double>(*bytes) == expected);
  }
  CHECK(accepted > 10'000);
}

TEST_CASE("parse_digits: digits of the base, without a sign") {
  CHECK(parse_digits("0") == 0);
  CHECK(parse_digits("007") == 7);
  CHECK(parse_digits("ff", 16) == 255);
  CHECK(parse_digits("18446744073709551615") == UINT64_MAX);
  for (const char* text : {"", "-1", "+1", " 1", "1 ", "ff", "0x1", "1.0", "18446744073709551616"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_digits(text));
  }
}

TEST_CASE("parse_integer: decimal, or hexadecimal with 0x, with a sign") {
  CHECK(parse_integer("0") == 0);
  CHECK(parse_integer("20") == 20);
  CHECK(parse_integer("-1") == -1);
  CHECK(parse_integer("0x1F") == 31);
  CHECK(parse_integer("0Xff") == 255);
  CHECK(parse_integer("-0x10") == -16);
  CHECK(parse_integer("9223372036854775807") == INT64_MAX);
}

TEST_CASE("parse_integer: rejects text that nccl-tests would truncate or read as octal") {
  for (const char* text : {"", "-", "+1", "10k", "1e3", "1.0", " 1", "1 ", "010", "-010", "00", "0x", "0x-1", "--1",
                           "0xg", "all", "9223372036854775808", "0x10000000000000000", "1,2"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_integer(text));
  }
}

TEST_CASE("parse_integer: accepted text has the same value as with strtol") {
  Random random(2);
  for (int i = 0; i < 100'000; ++i) {
    const std::string text = random.text("0123456789abfx-+ ", 5);
    const auto value = parse_integer(text);
    if (!value) continue;
    CAPTURE(text);
    char* end = nullptr;
    REQUIRE(*value == std::strtol(text.c_str(), &end, 0));
    REQUIRE(*end == '\0');
  }
}

TEST_CASE("parse_number: finite, not negative, no trailing text") {
  CHECK(parse_number("12.5") == 12.5);
  CHECK(parse_number("0") == 0);
  CHECK(parse_number("1e2") == 100);
  for (const char* text : {"", "-1", "nan", "inf", "1x", "1 ", " 1", "0x1", "1e999"}) CHECK_FALSE(parse_number(text));
}

TEST_CASE("parse_duration_s: seconds, milliseconds, minutes") {
  CHECK(parse_duration_s("60") == 60);
  CHECK(parse_duration_s("60s") == 60);
  CHECK(parse_duration_s("500ms") == doctest::Approx(0.5));
  CHECK(parse_duration_s("2m") == 120);
  CHECK(parse_duration_s("1.5min") == 90);
  for (const char* text : {"", "s", "-1s", "1h", "1 s", "1us", "1S", "nan"}) CHECK_FALSE(parse_duration_s(text));
}

TEST_CASE("parse_fraction: percent or a plain number") {
  CHECK(parse_fraction("1%") == doctest::Approx(0.01));
  CHECK(parse_fraction("0.01") == 0.01);
  CHECK(parse_fraction("100%") == 1);
  for (const char* text : {"", "%", "-1%", "1 %", "1%%", "1p", "nan"}) CHECK_FALSE(parse_fraction(text));
}

TEST_CASE("size_text: the largest binary unit") {
  CHECK(size_text(0) == "0 B");
  CHECK(size_text(8) == "8 B");
  CHECK(size_text(1023) == "1023 B");
  CHECK(size_text(1024) == "1 KiB");
  CHECK(size_text(64u << 20) == "64 MiB");
  CHECK(size_text(1536u << 20) == "1.5 GiB");
  CHECK(size_text(std::uint64_t{1} << 62) == "4 EiB");
}
