#include "fastpath/choice/method_selector.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <string>

using namespace busbw::fastpath;

namespace {

Table table_of(const std::string& text) { return Table::parse(text, "test"); }

const std::string kText =
    "all_reduce ranks=4 up_to=64K exchange blocks=8 threads=512\n"
    "all_reduce ranks=4 up_to=1M two_shot blocks=16 threads=256\n"
    "all_gather ranks=2-8 up_to=1M exchange blocks=32 threads=128\n";

std::uint64_t hash_of(const Settings& settings) { return MethodSelector(settings, table_of(kText)).hash(); }

}  // namespace

TEST_CASE("the table selects the method") {
  const MethodSelector selector({}, table_of(kText));
  CHECK(selector.select_config(Collective::all_reduce, 4, 65536, false) == MethodConfig{Method::exchange, 8, 512});
  CHECK(selector.select_config(Collective::all_reduce, 4, 65537, false) == MethodConfig{Method::two_shot, 16, 256});
  CHECK(selector.select_config(Collective::all_reduce, 4, (1 << 20) + 1, false) == MethodConfig{});
  CHECK(selector.select_config(Collective::all_reduce, 3, 1024, false) == MethodConfig{});
  CHECK(selector.select_config(Collective::broadcast, 4, 1024, false) == MethodConfig{});
}

TEST_CASE("selects_any is false if every call is delegated to NCCL") {
  const MethodSelector selector({}, table_of(kText));
  CHECK(selector.may_use_fast_path(4));
  CHECK(selector.may_use_fast_path(2));  // all-gathers
  CHECK_FALSE(selector.may_use_fast_path(9));
  CHECK_FALSE(selector.may_use_fast_path(1 << 20));
  CHECK_FALSE(MethodSelector({}, Table()).may_use_fast_path(4));
  CHECK_FALSE(MethodSelector({}, table_of("all_reduce ranks=2-8 up_to=1M nccl\n")).may_use_fast_path(4));
  CHECK(MethodSelector({}, table_of("all_reduce ranks=4 windows up_to=1M direct blocks=8 threads=512\n"))
            .may_use_fast_path(4));
  Settings settings;
  settings.modes[static_cast<std::size_t>(Collective::all_gather)] = Mode::off;
  CHECK_FALSE(MethodSelector(settings, table_of(kText)).may_use_fast_path(2));
  settings.forced = MethodConfig{Method::exchange, 8, 512};
  CHECK(MethodSelector(settings, Table()).may_use_fast_path(2));
  settings.forced = MethodConfig{};
  CHECK_FALSE(MethodSelector(settings, table_of(kText)).may_use_fast_path(4));
}

TEST_CASE("a collective that is off is delegated to NCCL, a verified one is not") {
  Settings settings;
  settings.modes[static_cast<std::size_t>(Collective::all_reduce)] = Mode::off;
  settings.modes[static_cast<std::size_t>(Collective::all_gather)] = Mode::verify;
  const MethodSelector selector(settings, table_of(kText));
  CHECK(selector.mode(Collective::all_reduce) == Mode::off);
  CHECK(selector.mode(Collective::all_gather) == Mode::verify);
  CHECK(selector.mode(Collective::broadcast) == Mode::on);
  CHECK(selector.select_config(Collective::all_reduce, 4, 1024, false) == MethodConfig{});
  CHECK(selector.select_config(Collective::all_gather, 4, 1024, false) == MethodConfig{Method::exchange, 32, 128});
}

TEST_CASE("a forced method runs every supported collective that is not off, at every size") {
  Settings settings;
  settings.forced = MethodConfig{Method::two_shot, 5, 96};
  settings.modes[static_cast<std::size_t>(Collective::broadcast)] = Mode::off;
  const MethodSelector selector(settings, table_of(kText));
  CHECK(selector.select_config(Collective::all_reduce, 4, 1024, false) == MethodConfig{Method::two_shot, 5, 96});
  CHECK(selector.select_config(Collective::all_reduce, 7, 1 << 30, false) == MethodConfig{Method::two_shot, 5, 96});
  CHECK(selector.select_config(Collective::all_gather, 4, 1024, false) == MethodConfig{});
  CHECK(selector.select_config(Collective::broadcast, 4, 1024, false) == MethodConfig{});
}

TEST_CASE("lines for windows select the method of calls in windows") {
  const std::string in_windows = "all_reduce ranks=4 windows up_to=16M direct blocks=64 threads=512\n";
  const MethodSelector selector({}, table_of(kText + in_windows));
  CHECK(selector.select_config(Collective::all_reduce, 4, 65536, true) == MethodConfig{Method::direct, 64, 512});
  CHECK(selector.select_config(Collective::all_reduce, 4, 65536, false) == MethodConfig{Method::exchange, 8, 512});
  CHECK(selector.select_config(Collective::all_reduce, 4, (16 << 20) + 1, true) == MethodConfig{});
  CHECK(selector.select_config(Collective::all_gather, 4, 1024, true) == MethodConfig{Method::exchange, 32, 128});
  CHECK(selector.hash() != hash_of({}));
  Settings settings;
  settings.modes[static_cast<std::size_t>(Collective::all_reduce)] = Mode::off;
  CHECK(MethodSelector(settings, table_of(kText + in_windows)).select_config(Collective::all_reduce, 4, 65536, true) ==
        MethodConfig{});
}

TEST_CASE("direct can be forced only for calls in windows") {
  Settings settings;
  settings.forced = MethodConfig{Method::direct, 64, 512};
  const MethodSelector selector(settings, table_of(kText));
  for (const Collective collective : kCollectives) {
    CHECK(selector.select_config(collective, 4, 1024, false) == MethodConfig{});
    CHECK(selector.select_config(collective, 4, 1024, true) ==
          (supports(collective, Method::direct) ? *settings.forced : MethodConfig{}));
  }
  settings.forced->method = Method::exchange;
  CHECK(MethodSelector(settings, table_of(kText)).select_config(Collective::all_gather, 4, 1024, true) ==
        *settings.forced);
}

TEST_CASE("windows are searched only if the method depends on them") {
  const MethodSelector plain({}, table_of("all_gather ranks=2-4 up_to=1M exchange blocks=8 threads=64\n"));
  CHECK_FALSE(plain.depends_on_windows(Collective::all_gather, 2));
  const MethodSelector own({}, table_of("all_gather ranks=2 windows up_to=1M direct blocks=8 threads=64\n"));
  CHECK(own.depends_on_windows(Collective::all_gather, 2));
  CHECK_FALSE(own.depends_on_windows(Collective::all_gather, 3));
  CHECK_FALSE(own.depends_on_windows(Collective::all_reduce, 2));
  Settings settings;
  settings.forced = MethodConfig{Method::direct, 64, 512};
  CHECK(MethodSelector(settings, table_of("")).depends_on_windows(Collective::all_reduce, 8));
  settings.forced = MethodConfig{Method::exchange, 64, 512};
  CHECK_FALSE(MethodSelector(settings, table_of("")).depends_on_windows(Collective::all_reduce, 8));
}

TEST_CASE("the hash differs if a setting that affects the selection differs") {
  std::set<std::uint64_t> hashes{hash_of({})};
  std::size_t different = 1;
  const auto add = [&](const Settings& settings) {
    hashes.insert(hash_of(settings));
    ++different;
  };
  for (const Collective collective : kCollectives)
    for (const Mode mode : {Mode::off, Mode::verify}) {
      Settings settings;
      settings.modes[static_cast<std::size_t>(collective)] = mode;
      add(settings);
    }
  for (const MethodConfig& config :
       {MethodConfig{}, MethodConfig{Method::exchange, 1, 32}, MethodConfig{Method::two_shot, 1, 32},
        MethodConfig{Method::exchange, 2, 32}, MethodConfig{Method::exchange, 1, 64}}) {
    Settings settings;
    settings.forced = config;
    add(settings);
  }
  hashes.insert(MethodSelector({}, Table{}).hash());
  ++different;
  CHECK(hashes.size() == different);
}

TEST_CASE("the hash is equal if all settings that affect the selection are equal") {
  Settings settings;
  settings.log = "stderr";
  settings.table = "/some/file";
  settings.scratch_bytes = 1;
  CHECK(hash_of(settings) == hash_of({}));
  CHECK(MethodSelector({}, table_of("# a comment\n" + kText)).hash() == hash_of({}));
}

TEST_CASE("calls on a small GPU use fewer blocks, so that kernels of three communicators fit") {
  const Table table = table_of("all_gather ranks=2-4 up_to=1M exchange blocks=128 threads=512\n");
  const MethodSelector large({}, table, max_blocks_on(132)), small({}, table, max_blocks_on(78));
  CHECK(large.select_config(Collective::all_gather, 2, 1 << 20, false).blocks == 128);
  CHECK(small.select_config(Collective::all_gather, 2, 1 << 20, false).blocks == 77);
  CHECK(small.select_config(Collective::all_gather, 2, 2 << 20, false) == MethodConfig{});
  CHECK(large.hash() != small.hash());
  for (const int multiprocessors : {1, 2, 78, 114, 132, 148}) {
    const int places = 2 * multiprocessors;
    const int blocks = max_blocks_on(multiprocessors);
    CHECK(blocks >= 1);
    if (multiprocessors > 1) CHECK(2 * blocks + 1 <= places);
  }
  Settings forced;
  forced.forced = MethodConfig{Method::exchange, 128, 512};
  CHECK(MethodSelector(forced, table, 77).select_config(Collective::all_gather, 2, 8, false).blocks == 128);
}
