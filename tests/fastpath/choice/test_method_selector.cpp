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

std::uint64_t hash_of(const Settings& settings) { return Choices(settings, table_of(kText)).hash(); }

}  // namespace

TEST_CASE("the table chooses") {
  const Choices choices({}, table_of(kText));
  CHECK(choices.choose(Collective::all_reduce, 4, 65536, false) == Choice{Method::exchange, 8, 512});
  CHECK(choices.choose(Collective::all_reduce, 4, 65537, false) == Choice{Method::two_shot, 16, 256});
  CHECK(choices.choose(Collective::all_reduce, 4, (1 << 20) + 1, false) == Choice{});
  CHECK(choices.choose(Collective::all_reduce, 3, 1024, false) == Choice{});
  CHECK(choices.choose(Collective::broadcast, 4, 1024, false) == Choice{});
}

TEST_CASE("whether there is anything to do at all") {
  const Choices choices({}, table_of(kText));
  CHECK(choices.does_any(4));
  CHECK(choices.does_any(2));  // all-gathers
  CHECK_FALSE(choices.does_any(9));
  CHECK_FALSE(choices.does_any(1 << 20));
  CHECK_FALSE(Choices({}, Table()).does_any(4));
  CHECK_FALSE(Choices({}, table_of("all_reduce ranks=2-8 up_to=1M nccl\n")).does_any(4));
  CHECK(Choices({}, table_of("all_reduce ranks=4 windows up_to=1M direct blocks=8 threads=512\n")).does_any(4));
  Settings settings;
  settings.modes[static_cast<std::size_t>(Collective::all_gather)] = Mode::off;
  CHECK_FALSE(Choices(settings, table_of(kText)).does_any(2));
  settings.forced = Choice{Method::exchange, 8, 512};
  CHECK(Choices(settings, Table()).does_any(2));
  settings.forced = Choice{};
  CHECK_FALSE(Choices(settings, table_of(kText)).does_any(4));
}

TEST_CASE("a collective that is off is handed over, one that is verified is not") {
  Settings settings;
  settings.modes[static_cast<std::size_t>(Collective::all_reduce)] = Mode::off;
  settings.modes[static_cast<std::size_t>(Collective::all_gather)] = Mode::verify;
  const Choices choices(settings, table_of(kText));
  CHECK(choices.mode(Collective::all_reduce) == Mode::off);
  CHECK(choices.mode(Collective::all_gather) == Mode::verify);
  CHECK(choices.mode(Collective::broadcast) == Mode::on);
  CHECK(choices.choose(Collective::all_reduce, 4, 1024, false) == Choice{});
  CHECK(choices.choose(Collective::all_gather, 4, 1024, false) == Choice{Method::exchange, 32, 128});
}

TEST_CASE("a forced method takes every size that it can do, and nothing that is off") {
  Settings settings;
  settings.forced = Choice{Method::two_shot, 5, 96};
  settings.modes[static_cast<std::size_t>(Collective::broadcast)] = Mode::off;
  const Choices choices(settings, table_of(kText));
  CHECK(choices.choose(Collective::all_reduce, 4, 1024, false) == Choice{Method::two_shot, 5, 96});
  CHECK(choices.choose(Collective::all_reduce, 7, 1 << 30, false) == Choice{Method::two_shot, 5, 96});
  CHECK(choices.choose(Collective::all_gather, 4, 1024, false) == Choice{});
  CHECK(choices.choose(Collective::broadcast, 4, 1024, false) == Choice{});
}

TEST_CASE("calls in windows are chosen for by lines of their own") {
  const std::string in_windows = "all_reduce ranks=4 windows up_to=16M direct blocks=64 threads=512\n";
  const Choices choices({}, table_of(kText + in_windows));
  CHECK(choices.choose(Collective::all_reduce, 4, 65536, true) == Choice{Method::direct, 64, 512});
  CHECK(choices.choose(Collective::all_reduce, 4, 65536, false) == Choice{Method::exchange, 8, 512});
  CHECK(choices.choose(Collective::all_reduce, 4, (16 << 20) + 1, true) == Choice{});
  CHECK(choices.choose(Collective::all_gather, 4, 1024, true) == Choice{Method::exchange, 32, 128});
  CHECK(choices.hash() != hash_of({}));
  Settings settings;
  settings.modes[static_cast<std::size_t>(Collective::all_reduce)] = Mode::off;
  CHECK(Choices(settings, table_of(kText + in_windows)).choose(Collective::all_reduce, 4, 65536, true) == Choice{});
}

TEST_CASE("direct can be forced upon calls in windows only") {
  Settings settings;
  settings.forced = Choice{Method::direct, 64, 512};
  const Choices choices(settings, table_of(kText));
  for (const Collective collective : kCollectives) {
    CHECK(choices.choose(collective, 4, 1024, false) == Choice{});
    CHECK(choices.choose(collective, 4, 1024, true) == (can(collective, Method::direct) ? *settings.forced : Choice{}));
  }
  settings.forced->method = Method::exchange;
  CHECK(Choices(settings, table_of(kText)).choose(Collective::all_gather, 4, 1024, true) == *settings.forced);
}

TEST_CASE("windows are looked for only where they make a difference") {
  const Choices plain({}, table_of("all_gather ranks=2-4 up_to=1M exchange blocks=8 threads=64\n"));
  CHECK_FALSE(plain.regards_windows(Collective::all_gather, 2));
  const Choices own({}, table_of("all_gather ranks=2 windows up_to=1M direct blocks=8 threads=64\n"));
  CHECK(own.regards_windows(Collective::all_gather, 2));
  CHECK_FALSE(own.regards_windows(Collective::all_gather, 3));
  CHECK_FALSE(own.regards_windows(Collective::all_reduce, 2));
  Settings settings;
  settings.forced = Choice{Method::direct, 64, 512};
  CHECK(Choices(settings, table_of("")).regards_windows(Collective::all_reduce, 8));
  settings.forced = Choice{Method::exchange, 64, 512};
  CHECK_FALSE(Choices(settings, table_of("")).regards_windows(Collective::all_reduce, 8));
}

TEST_CASE("a hash differs wherever something that decides does") {
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
  for (const Choice& choice : {Choice{}, Choice{Method::exchange, 1, 32}, Choice{Method::two_shot, 1, 32},
                               Choice{Method::exchange, 2, 32}, Choice{Method::exchange, 1, 64}}) {
    Settings settings;
    settings.forced = choice;
    add(settings);
  }
  hashes.insert(Choices({}, Table{}).hash());
  ++different;
  CHECK(hashes.size() == different);
}

TEST_CASE("a hash is the same wherever nothing that decides differs") {
  Settings settings;
  settings.log = "stderr";
  settings.table = "/some/file";
  settings.scratch_bytes = 1;
  CHECK(hash_of(settings) == hash_of({}));
  CHECK(Choices({}, table_of("# a comment\n" + kText)).hash() == hash_of({}));
}

TEST_CASE("a small GPU's calls take fewer blocks, so that kernels of three communicators find room") {
  const Table table = table_of("all_gather ranks=2-4 up_to=1M exchange blocks=128 threads=512\n");
  const Choices large({}, table, most_blocks_on(132)), small({}, table, most_blocks_on(78));
  CHECK(large.choose(Collective::all_gather, 2, 1 << 20, false).blocks == 128);
  CHECK(small.choose(Collective::all_gather, 2, 1 << 20, false).blocks == 77);
  CHECK(small.choose(Collective::all_gather, 2, 2 << 20, false) == Choice{});
  CHECK(large.hash() != small.hash());
  for (const int multiprocessors : {1, 2, 78, 114, 132, 148}) {
    const int places = 2 * multiprocessors;
    const int blocks = most_blocks_on(multiprocessors);
    CHECK(blocks >= 1);
    if (multiprocessors > 1) CHECK(2 * blocks + 1 <= places);
  }
  Settings forced;
  forced.forced = Choice{Method::exchange, 128, 512};
  CHECK(Choices(forced, table, 77).choose(Collective::all_gather, 2, 8, false).blocks == 128);
}
