#include "fastpath/choice/settings.hpp"

#include <doctest/doctest.h>

#include <map>

using namespace busbw::fastpath;

namespace {

std::map<std::string, std::string>& variables() {
  static std::map<std::string, std::string> values;
  return values;
}

std::optional<std::string> in_variables(const char* name) {
  const auto found = variables().find(name);
  if (found == variables().end()) return std::nullopt;
  return found->second;
}

ParsedSettings read(std::map<std::string, std::string> values) {
  variables() = std::move(values);
  return read_settings(in_variables);
}

/// Returns the mode that all collectives have.
Mode of_all(const Settings& settings) {
  for (const Collective collective : kCollectives) CHECK(settings.mode(collective) == settings.modes[0]);
  return settings.modes[0];
}

TEST_CASE("without variables the fast path is on, silent and small") {
  const auto [settings, errors] = read({});
  CHECK(errors.empty());
  CHECK(of_all(settings) == Mode::on);
  CHECK(settings.log.empty());
  CHECK(settings.table.empty());
  CHECK(settings.scratch_bytes == 64u * 1024 * 1024);
  CHECK_FALSE(settings.nvls_is_off);
}

TEST_CASE("NVLS is off if NCCL's own variable is 0") {
  CHECK(read({{"NCCL_NVLS_ENABLE", "0"}}).settings.nvls_is_off);
  for (const char* value : {"1", "2", ""}) CHECK_FALSE(read({{"NCCL_NVLS_ENABLE", value}}).settings.nvls_is_off);
}

TEST_CASE("each variable sets its setting") {
  const auto [settings, errors] = read({{"BUSBW_FASTPATH", "verify"},
                                        {"BUSBW_FASTPATH_LOG", "/tmp/fast.%p"},
                                        {"BUSBW_FASTPATH_TABLE", "a table"},
                                        {"BUSBW_FASTPATH_MIB", "16"}});
  CHECK(errors.empty());
  CHECK(of_all(settings) == Mode::verify);
  CHECK(settings.log == "/tmp/fast.%p");
  CHECK(settings.table == "a table");
  CHECK(settings.scratch_bytes == 16u * 1024 * 1024);
  CHECK(read({{"BUSBW_FASTPATH", "off"}}).settings.all_off());
  CHECK(read({{"BUSBW_FASTPATH", ""}, {"BUSBW_FASTPATH_MIB", ""}}).settings.mode(Collective::alltoall) == Mode::on);
}

TEST_CASE("a collective may have a mode of its own") {
  const auto but_one = read({{"BUSBW_FASTPATH_ALL_GATHER", "off"}}).settings;
  for (const Collective collective : kCollectives)
    CHECK(but_one.mode(collective) == (collective == Collective::all_gather ? Mode::off : Mode::on));
  const auto [settings, errors] = read({{"BUSBW_FASTPATH", "off"},
                                        {"BUSBW_FASTPATH_ALL_REDUCE", "verify"},
                                        {"BUSBW_FASTPATH_REDUCE_SCATTER", "on"},
                                        {"BUSBW_FASTPATH_BROADCAST", "off"},
                                        {"BUSBW_FASTPATH_ALLTOALL", "on"}});
  CHECK(errors.empty());
  CHECK(settings.mode(Collective::all_reduce) == Mode::verify);
  CHECK(settings.mode(Collective::all_gather) == Mode::off);
  CHECK(settings.mode(Collective::reduce_scatter) == Mode::on);
  CHECK(settings.mode(Collective::broadcast) == Mode::off);
  CHECK(settings.mode(Collective::alltoall) == Mode::on);
  CHECK_FALSE(settings.all_off());
}

TEST_CASE("a method can be forced") {
  CHECK(read({}).settings.forced == std::nullopt);
  CHECK(read({{"BUSBW_FASTPATH_METHOD", "exchange,8,512"}}).settings.forced == MethodConfig{Method::exchange, 8, 512});
  CHECK(read({{"BUSBW_FASTPATH_METHOD", "two_shot,1,32"}}).settings.forced == MethodConfig{Method::two_shot, 1, 32});
  CHECK(read({{"BUSBW_FASTPATH_METHOD", "direct,64,512"}}).settings.forced == MethodConfig{Method::direct, 64, 512});
  CHECK(read({{"BUSBW_FASTPATH_METHOD", "nccl"}}).settings.forced == MethodConfig{});
  for (const char* wrong :
       {"exchange", "exchange,8", "exchange,8,512,1", "exchange,0,512", "exchange,8,500", "exchange,8,2048",
        "exchange,1000,512", "nccl,1,32", "two-shot,8,512", ",8,512", "exchange,,512", "exchange, 8,512"}) {
    CAPTURE(wrong);
    const auto [settings, errors] = read({{"BUSBW_FASTPATH_METHOD", wrong}});
    CHECK(settings.all_off());
    REQUIRE(errors.size() == 1);
    CHECK(errors[0].starts_with(std::string("BUSBW_FASTPATH_METHOD=") + wrong +
                                " is invalid, so the fast path is off; set nccl, or METHOD,BLOCKS,THREADS "));
  }
}

TEST_CASE("an invalid value switches the fast path off and is named in the error") {
  const auto mode = read({{"BUSBW_FASTPATH", "yes"}});
  CHECK(mode.settings.all_off());
  REQUIRE(mode.errors.size() == 1);
  CHECK(mode.errors[0] == "BUSBW_FASTPATH=yes is invalid, so the fast path is off; set off, on or verify");
  for (const char* wrong : {"0", "-1", "1.5", "64M", " 64", "064", "1048577", "99999999999999999999"}) {
    CAPTURE(wrong);
    const auto number = read({{"BUSBW_FASTPATH_MIB", wrong}});
    CHECK(number.settings.all_off());
    REQUIRE(number.errors.size() == 1);
    CHECK(number.errors[0] == std::string("BUSBW_FASTPATH_MIB=") + wrong +
                                  " is invalid, so the fast path is off; set a whole number from 1 "
                                  "to 1048576");
  }
  CHECK(read({{"BUSBW_FASTPATH_ALLTOALL", "yes"}}).settings.all_off());
  CHECK(read({{"BUSBW_FASTPATH", "yes"}, {"BUSBW_FASTPATH_MIB", "no"}}).errors.size() == 2);
}

}  // namespace

TEST_CASE("variables that request a feature of NCCL alone are parsed as NCCL does") {
  const auto asks = [](const char* name, const char* value) {
    variables() = {{name, value}};
    return requires_real_nccl(in_variables);
  };
  for (const char* name : {"NCCL_LAUNCH_ORDER_IMPLICIT", "NCCL_CHECK_POINTERS"}) {
    CHECK(asks(name, "1"));
    CHECK(asks(name, "0x2"));
    CHECK_FALSE(asks(name, "0"));
    CHECK_FALSE(asks(name, ""));
  }
  CHECK_FALSE(asks("NCCL_CHECK_POINTERS", "99999999999999999999"));
  CHECK(asks("NCCL_CHECK_MODE", "DEBUG_LOCAL"));
  CHECK(asks("NCCL_CHECK_MODE", "debug_global"));
  CHECK_FALSE(asks("NCCL_CHECK_MODE", "DEFAULT"));
  CHECK_FALSE(asks("NCCL_DEBUG", "1"));
}

TEST_CASE("numbers in NCCL's variables are parsed as NCCL does") {
  const auto number = [](const char* value) {
    variables() = {{"NCCL_COMM_BLOCKING", value}};
    return nccl_number("NCCL_COMM_BLOCKING", in_variables);
  };
  for (const char* zero : {"0", "00", "0x0", " 0", "no"}) CHECK(number(zero) == 0);
  CHECK(number("1") == 1);
  CHECK(number("-2") == -2);
  CHECK_FALSE(number("").has_value());
  CHECK_FALSE(number("99999999999999999999").has_value());
}
