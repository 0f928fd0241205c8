#include "common/support/printable.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

using namespace busbw;

TEST_CASE("printable: escapes control characters and line breaks, and keeps letters of every language") {
  CHECK(printable("") == "");
  CHECK(printable("Bildschirm f\xc3\xbcr \xe4\xb8\xad\xe6\x96\x87, \\n as typed") ==
        "Bildschirm f\xc3\xbcr \xe4\xb8\xad\xe6\x96\x87, \\n as typed");
  CHECK(printable("a\nb\r\tc") == "a\\nb\\x0d\\tc");
  CHECK(printable("\x1b[2J\x7f") == "\\x1b[2J\\x7f");
  CHECK(printable(std::string_view("\0", 1)) == "\\x00");
  CHECK(printable("\xc2\x9b"
                  "2J") == "\\x9b2J");
  CHECK(printable("\xc2\xa0") == "\xc2\xa0");
  CHECK(printable("\xc2") == "\xc2");
}

TEST_CASE("printable_value: cuts a long value between two characters and gives its length") {
  CHECK(printable_value(std::string(200, 'x')) == std::string(200, 'x'));
  CHECK(printable_value(std::string(201, 'x')) == std::string(200, 'x') + "... (201 bytes)");
  std::string umlauts = "x";
  for (int i = 0; i < 150; ++i) umlauts += "\xc3\xbc";
  CHECK(printable_value(umlauts) == umlauts.substr(0, 199) + "... (301 bytes)");
  CHECK(printable_value("two\nlines") == "two\\nlines");
  CHECK(printable_value(std::string(300, '\n')).size() < 450);
}

TEST_CASE("hexadecimal digits and bytes") {
  const std::vector<std::byte> bytes{std::byte{0}, std::byte{0x0f}, std::byte{0xa0}, std::byte{0xff}};
  CHECK(hexadecimal(bytes) == "000fa0ff");
  CHECK(bytes_of_hexadecimal("000fa0ff") == bytes);
  CHECK(bytes_of_hexadecimal("") == std::vector<std::byte>{});
  for (const char* text : {"0", "0g", "0F", "00 "}) CHECK_FALSE(bytes_of_hexadecimal(text));
}
