#include "output/json_builder.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using busbw::JsonBuilder;
using busbw::quoted;

TEST_CASE("strings are quoted so that any bytes make valid JSON") {
  CHECK(quoted("plain/text") == R"("plain/text")");
  CHECK(quoted("\"\\\t\n\x01") == R"("\"\\\t\n\u0001")");
  CHECK(quoted("Zürich") == "\"Zürich\"");
  CHECK(quoted("broken \xff here") == "\"broken \xef\xbf\xbd here\"");
  CHECK(quoted("") == "\"\"");
}

TEST_CASE("commas stand only between members and values") {
  JsonBuilder json;
  json.open_object();
  json.field("a", 1);
  json.key("b");
  json.open_array();
  json.close_array();
  json.key("c");
  json.open_array();
  json.value("x");
  json.open_object();
  json.close_object();
  json.value(true);
  json.close_array();
  json.text_object("d", {{"e\"", "f"}});
  json.close_object();
  CHECK(json.text() == R"({"a":1,"b":[],"c":["x",{},true],"d":{"e\"":"f"}})");

  json.clear();
  json.value(2);
  CHECK(json.text() == "2");
}

TEST_CASE("a list becomes an array of its values, or of the text that a function writes for each") {
  const std::vector<int> numbers{1, 2};
  JsonBuilder json;
  json.open_object();
  json.values("a", numbers);
  json.values("b", std::vector<std::string>{"x\""});
  json.values("c", std::vector<int>{});
  json.values("d", std::vector{numbers, {}},
              [&](const std::vector<int>& inner) { json.array(inner, [&](int number) { json.fixed(number, 1); }); });
  json.field("e", true);
  json.close_object();
  CHECK(json.text() == R"({"a":[1,2],"b":["x\""],"c":[],"d":[[1.0,2.0],[]],"e":true})");
}

TEST_CASE("numbers keep nine digits, and numbers that JSON lacks are null") {
  JsonBuilder json;
  json.open_array();
  json.value(0.5);
  json.value(24.469050000000003);
  json.value(1e300);
  json.value(std::nan(""));
  json.value(-std::numeric_limits<double>::infinity());
  json.fixed(24.46905, 6);
  json.fixed(0, 3);
  json.fixed(std::numeric_limits<double>::infinity(), 6);
  json.value(std::numeric_limits<std::uint64_t>::max());
  json.value(std::numeric_limits<std::int64_t>::min());
  json.value(std::optional<int>());
  json.value(std::optional<double>(1));
  json.close_array();
  CHECK(json.text() ==
        "[0.5,24.46905,1e+300,null,null,24.469050,0.000,null,18446744073709551615,-9223372036854775808,null,1]");
}
