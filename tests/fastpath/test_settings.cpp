#include "fastpath/settings.hpp"

#include <doctest/doctest.h>

#include <map>

using namespace busbw::fastpath;

namespace {

std::map<std::string, std::string>& variables() {
  static std::map<std::string, std::string> values;
  return values;
}

ReadSettings read(std::map<std::string, std::string> values) {
  variables() = std::move(values);
  return read_settings([](const char* name) -> std::optional<std::string> {
    const auto found = variables().find(name);
    if (found == variables().end()) return std::nullopt;
    return found->second;
  });
}

TEST_CASE("without variables the fast path is on, silent and small") {
  const auto [settings, complaints] = read({});
  CHECK(complaints.empty());
  CHECK(settings.mode == Mode::on);
  CHECK(settings.log.empty());
  CHECK(settings.table.empty());
  CHECK(settings.scratch_bytes == 64u * 1024 * 1024);
}

TEST_CASE("each variable says what it says") {
  const auto [settings, complaints] = read({{"BUSBW_FASTPATH", "verify"},
                                            {"BUSBW_FASTPATH_LOG", "/tmp/fast.%p"},
                                            {"BUSBW_FASTPATH_TABLE", "a table"},
                                            {"BUSBW_FASTPATH_MIB", "16"}});
  CHECK(complaints.empty());
  CHECK(settings.mode == Mode::verify);
  CHECK(settings.log == "/tmp/fast.%p");
  CHECK(settings.table == "a table");
  CHECK(settings.scratch_bytes == 16u * 1024 * 1024);
  CHECK(read({{"BUSBW_FASTPATH", "off"}}).settings.mode == Mode::off);
  CHECK(read({{"BUSBW_FASTPATH", ""}, {"BUSBW_FASTPATH_MIB", ""}}).settings.mode == Mode::on);
}

TEST_CASE("what is not understood switches off and is named") {
  const auto mode = read({{"BUSBW_FASTPATH", "yes"}});
  CHECK(mode.settings.mode == Mode::off);
  REQUIRE(mode.complaints.size() == 1);
  CHECK(mode.complaints[0] ==
        "BUSBW_FASTPATH=yes is not understood, and the fast path is off: allowed is off, on or verify");
  for (const char* wrong : {"0", "-1", "1.5", "64M", " 64", "1048577", "99999999999999999999"}) {
    CAPTURE(wrong);
    const auto number = read({{"BUSBW_FASTPATH_MIB", wrong}});
    CHECK(number.settings.mode == Mode::off);
    REQUIRE(number.complaints.size() == 1);
    CHECK(number.complaints[0] == std::string("BUSBW_FASTPATH_MIB=") + wrong +
                                      " is not understood, and the fast path is off: allowed is a whole number from 1 "
                                      "to 1048576");
  }
  CHECK(read({{"BUSBW_FASTPATH", "yes"}, {"BUSBW_FASTPATH_MIB", "no"}}).complaints.size() == 2);
}

}  // namespace
