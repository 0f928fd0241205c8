#include "fastpath/choice/table.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <random>
#include <tuple>

#include "common/support/error.hpp"

using namespace busbw;
using namespace busbw::fastpath;

namespace {

constexpr MethodConfig kDelegated{};

/// Returns the error message of an invalid table. Empty if the table is valid.
std::string refusal(std::string_view text) {
  try {
    Table::parse(text, "t.txt");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("table: a range begins at the end of the previous one, and calls above the last are delegated to NCCL") {
  const Table table = Table::parse(
      "# a comment\n"
      "\n"
      "all_reduce ranks=4 up_to=1K exchange blocks=1 threads=32   # another\n"
      "\tall_reduce up_to=3000\tranks=4 nccl\r\n"
      "all_reduce threads=512 blocks=64 two_shot ranks=4 up_to=16M\n"
      "all_gather ranks=2-3 up_to=1G exchange blocks=8 threads=96",
      "t.txt");
  const auto all_reduce = [&](std::size_t bytes) {
    return table.look_up_config(Collective::all_reduce, 4, bytes, false);
  };
  const MethodConfig small{Method::exchange, 1, 32};
  const MethodConfig large{Method::two_shot, 64, 512};
  CHECK(all_reduce(0) == small);
  CHECK(all_reduce(1) == small);
  CHECK(all_reduce(1024) == small);
  CHECK(all_reduce(1025) == kDelegated);
  CHECK(all_reduce(3000) == kDelegated);
  CHECK(all_reduce(3001) == large);
  CHECK(all_reduce(4096) == large);
  CHECK(all_reduce(16 << 20) == large);
  CHECK(all_reduce((16 << 20) + 1) == kDelegated);
  CHECK(all_reduce(std::numeric_limits<std::size_t>::max()) == kDelegated);
  CHECK(table.look_up_config(Collective::all_gather, 2, 1 << 30, false).threads == 96);
  CHECK(table.look_up_config(Collective::all_gather, 3, 1, false).method == Method::exchange);
}

TEST_CASE("table: calls without a line and with an unsupported number of ranks are delegated to NCCL") {
  const Table table = Table::parse("all_reduce ranks=2-64 up_to=1K exchange blocks=1 threads=32", "t.txt");
  CHECK(table.look_up_config(Collective::broadcast, 4, 8, false) == kDelegated);
  CHECK(table.look_up_config(Collective::all_reduce, 64, 8, false).method == Method::exchange);
  for (const int ranks : {std::numeric_limits<int>::min(), -1, 0, 1, 65, std::numeric_limits<int>::max()}) {
    CHECK(table.look_up_config(Collective::all_reduce, ranks, 8, false) == kDelegated);
  }
  CHECK(Table().look_up_config(Collective::all_reduce, 4, 8, false) == kDelegated);
  CHECK(Table().text().empty());
  CHECK(Table().hash() == Table::parse("# nothing\n", "t.txt").hash());
}

TEST_CASE("table: text and parser round-trip, and look_up_config() equals a linear search") {
  std::mt19937_64 random(7);
  const auto below = [&random](std::uint64_t limit) { return random() % limit; };
  for (int round = 0; round < 200; ++round) {
    std::map<std::tuple<Collective, int, bool>, std::vector<std::pair<std::size_t, MethodConfig>>> ranges;
    std::string text;
    for (std::uint64_t lines = below(30); lines > 0; --lines) {
      const Collective collective = kCollectives[below(kCollectives.size())];
      const int ranks = static_cast<int>(2 + below(4));
      const bool in_windows = supports(collective, Method::direct) && below(3) == 0;
      auto& own = ranges[{collective, ranks, in_windows}];
      const std::size_t end = (own.empty() ? 0 : own.back().first) + 1 + below(std::uint64_t{1} << below(30));
      Method method = kMethods[below(kMethods.size())];
      if (!supports(collective, method) || (method == Method::direct && !in_windows)) method = Method::exchange;
      MethodConfig config{method, static_cast<int>(1 + below(256)), static_cast<int>(32 * (1 + below(16)))};
      if (method == Method::nccl) config = {};
      own.emplace_back(end, config);
      text += std::string(name(collective)) + " ranks=" + std::to_string(ranks) +
              (in_windows ? " windows up_to=" : " up_to=") + std::to_string(end) + " " + std::string(name(method));
      if (config.blocks != 0) {
        text += " blocks=" + std::to_string(config.blocks) + " threads=" + std::to_string(config.threads);
      }
      text += "\n";
    }
    const Table table = Table::parse(text, "t.txt");
    const Table again = Table::parse(table.text(), "again");
    CHECK(again.text() == table.text());
    CHECK(again.hash() == table.hash());
    for (const auto& [key, own] : ranges) {
      for (const auto& [end, config] : own) {
        for (const std::size_t bytes : {end - 1, end, end + 1, below(end) + 1}) {
          const auto found =
              std::find_if(own.begin(), own.end(), [&](const auto& each) { return bytes <= each.first; });
          const MethodConfig expected = found == own.end() ? MethodConfig{} : found->second;
          CHECK(std::apply([&](Collective collective, int ranks,
                               bool in_windows) { return table.look_up_config(collective, ranks, bytes, in_windows); },
                           key) == expected);
        }
      }
    }
  }
}

TEST_CASE("table: the hash depends on the configs, not on comments or on the grouping of lines") {
  const std::string line = "all_reduce ranks=2-3 up_to=64K exchange blocks=8 threads=512\n";
  const auto hash = [](const std::string& text) { return Table::parse(text, "t.txt").hash(); };
  CHECK(hash(line) == hash("# measured today\n" + line));
  CHECK(hash(line) == hash("all_reduce ranks=3 up_to=65536 exchange threads=512 blocks=8\n"
                           "all_reduce ranks=2 up_to=0.0625M exchange threads=512 blocks=8\n"));
  for (const char* other : {"all_reduce ranks=2-4 up_to=64K exchange blocks=8 threads=512",
                            "all_reduce ranks=2-3 up_to=65537 exchange blocks=8 threads=512",
                            "all_reduce ranks=2-3 up_to=64K two_shot blocks=8 threads=512",
                            "all_reduce ranks=2-3 up_to=64K exchange blocks=9 threads=512",
                            "all_reduce ranks=2-3 up_to=64K exchange blocks=8 threads=480",
                            "broadcast ranks=2-3 up_to=64K exchange blocks=8 threads=512", ""}) {
    CHECK(hash(line) != hash(other));
  }
}

TEST_CASE("table: an invalid line is refused with its number, the invalid word and the allowed values") {
  const std::string good = "all_reduce ranks=4 up_to=1K exchange blocks=1 threads=32\n";
  const auto refused = [&](const std::string& line, std::string_view part) {
    const std::string sentence = refusal(good + line);
    CAPTURE(line);
    CAPTURE(sentence);
    CHECK(sentence.starts_with("t.txt:2: "));
    CHECK(contains(sentence, part));
    CHECK(contains(sentence, "; "));
  };
  CHECK(refusal(good) == "");
  refused("allreduce ranks=4 up_to=2K nccl", "\"allreduce\" is not a collective");
  refused("reduce ranks=4 up_to=2K nccl", "begin the line with all_reduce, all_gather");
  refused("all_gather ranks=4 up_to=2K ring blocks=1 threads=32", "\"ring\" is not a method; give nccl, exchange");
  refused("all_gather ranks=4 up_to=2K nccl exchange", "two methods");
  refused("all_gather ranks=4 up_to=2K two_shot blocks=1 threads=32", "two_shot cannot run all_gather");
  for (const char* ranks : {"", "1", "0", "-4", "65", "4-", "-", "4-3", "2-65", "2-4-8", "four", "4.0", "1-4"}) {
    refused("all_gather ranks=" + std::string(ranks) + " up_to=2K nccl",
            "is not a number of ranks; give a number from 2");
  }
  for (const char* size : {"", "0", "-1", "1.5", "1P", "1Ki", "K", "5G5", "0x10", "1e40", "nan", "inf"}) {
    refused("all_gather ranks=4 up_to=" + std::string(size) + " nccl", "is not a size; give bytes");
  }
  for (const char* blocks : {"", "0", "257", "-1", "1.0", "all"}) {
    refused("all_gather ranks=4 up_to=2K exchange threads=32 blocks=" + std::string(blocks),
            "is not a number of blocks");
  }
  for (const char* threads : {"", "0", "31", "33", "1056", "-32", "1e2"}) {
    refused("all_gather ranks=4 up_to=2K exchange blocks=1 threads=" + std::string(threads),
            "is not a number of threads");
  }
  refused("all_gather ranks=4 up_to=2K exchange blocks=1", "exchange needs blocks= and threads=");
  refused("all_gather ranks=4 up_to=2K exchange threads=32", "exchange needs blocks= and threads=");
  refused("all_gather ranks=4 up_to=2K nccl blocks=1", "remove them from the line");
  refused("all_gather ranks=4 nccl", "the line is incomplete; write a line such as \"all_reduce ranks=4");
  refused("all_gather up_to=2K nccl", "the line is incomplete");
  refused("all_gather ranks=4 up_to=2K", "the line is incomplete");
  refused("ranks=4 up_to=2K", "\"ranks=4\" is not a collective");
  refused("all_gather ranks=4 ranks=5 up_to=2K nccl", "ranks= occurs twice");
  refused("all_gather ranks=4 up_to=1K up_to=2K nccl", "up_to= occurs twice");
  refused("all_gather ranks=4 up_to=1K exchange blocks=1 blocks=2 threads=32", "blocks= occurs twice");
  refused("all_gather ranks=4 up_to=1K exchange blocks=1 threads=64 threads=32", "threads= occurs twice");
  refused("all_gather ranks=4 up_to=2K nccl dtype=half", "\"dtype=half\" is not a key of a table line");
  refused("all_gather ranks=4 up_to=2K nccl\x1b[2J", "\\x1b[2J");
}

TEST_CASE("table: the library and the command accept the same lines") {
  const std::string before = "all_reduce ranks=4 up_to=1K exchange blocks=1 threads=32\n";
  std::ifstream lines(BUSBW_TEST_DIR "/golden/fastpath_table_lines.txt");
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    const bool good = line.starts_with("good ");
    REQUIRE((good || line.starts_with("bad ")));
    CAPTURE(line);
    CHECK(refusal(before + line.substr(line.find(' ') + 1)).empty() == good);
    ++number;
  }
  CHECK(number > 40);
}

TEST_CASE("table: overlapping ranges are refused for every number of ranks of a line") {
  const std::string good = "all_reduce ranks=4 up_to=64K exchange blocks=1 threads=32\n";
  for (const char* line : {"all_reduce ranks=4 up_to=64K nccl", "all_reduce ranks=2-8 up_to=32K nccl",
                           "all_reduce ranks=4-5 up_to=1 two_shot blocks=1 threads=32"}) {
    CHECK(refusal(good + line) ==
          "t.txt:2: all_reduce of 4 ranks already has a line up to 64K; increase up_to= from line to line, so that no "
          "two "
          "ranges overlap");
  }
  CHECK(refusal(good + "all_reduce ranks=2-8 up_to=65537 nccl") == "");
  CHECK(refusal(good + "broadcast ranks=4 up_to=1 nccl") == "");
  CHECK(refusal(good + "all_reduce ranks=5-8 up_to=1 nccl") == "");
}

TEST_CASE("table: an unreadable or invalid file is refused by name") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / ("table-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const std::string path = folder / "my.table";
  std::ofstream(path) << "broadcast ranks=2 up_to=1K exchange blocks=1 threads=32\n";
  CHECK(Table::read(path).look_up_config(Collective::broadcast, 2, 1024, false).threads == 32);
  std::ofstream(path, std::ios::app) << "broadcast\n";
  CHECK_THROWS_WITH_AS(Table::read(path), doctest::Contains("my.table:2: the line is incomplete"), UsageError);
  std::ofstream(path) << std::string((1 << 20) + 1, '\n');
  CHECK_THROWS_WITH_AS(Table::read(path), doctest::Contains("larger than 1 MiB"), UsageError);
  CHECK_THROWS_WITH_AS(Table::read(folder / "none"),
                       doctest::Contains("none: No such file or directory; name a table that"), UsageError);
  CHECK_THROWS_WITH_AS(Table::read(folder), doctest::Contains("not a regular file"), UsageError);
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(Table::read(folder / "pipe"), doctest::Contains("not a regular file"), UsageError);
  std::filesystem::remove_all(folder);
}

TEST_CASE("table: the default tables are valid, and other GPUs have none") {
  for (const int major : {8, 9, 10})
    for (const bool nvls_is_off : {false, true}) {
      const Table table = Table::parse(default_table_text(major, nvls_is_off), "sm_" + std::to_string(major) + "0.txt");
      for (const Collective collective : {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                                          Collective::broadcast, Collective::alltoall})
        for (int ranks = 2; ranks <= 8; ++ranks) {
          // Only two and four ranks on sm_90 without NVLS were measured. Their lines go to larger sizes than the
          // others.
          const bool was_measured = major == 9 && nvls_is_off && (ranks == 2 || ranks == 4);
          const std::size_t most = was_measured ? 128 << 20 : collective == Collective::alltoall ? 32 << 20 : 16 << 20;
          CHECK(table.look_up_config(collective, ranks, 8, false).method != Method::nccl);
          CHECK(table.look_up_config(collective, ranks, most + 1, false).method == Method::nccl);
        }
    }
  // With NVLS nothing was measured, and NCCL has special NVLS kernels for windows.
  for (int ranks = 2; ranks <= 8; ++ranks) {
    const Table beside_nvls = Table::parse(default_table_text(9, false), "sm_90.txt");
    for (const Collective collective : {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter})
      CHECK(beside_nvls.look_up_config(collective, ranks, 512 << 10, true).method == Method::nccl);
  }
  for (const int major : {-1, 0, 7, 11, 12, 99}) CHECK(default_table_text(major, true).empty());
}

TEST_CASE("table: names are parsed back to the same value") {
  for (const Collective each : kCollectives) CHECK(collective_named(name(each)) == each);
  for (const Method each : kMethods) CHECK(method_named(name(each)) == each);
  CHECK_FALSE(collective_named("all_reduce ").has_value());
  CHECK_FALSE(method_named("").has_value());
}

TEST_CASE("calls in windows use the lines for windows, or else the other lines") {
  const Table table = Table::parse(
      "all_gather ranks=2 up_to=1M exchange blocks=8 threads=64\n"
      "all_gather ranks=2 windows up_to=64K exchange blocks=4 threads=64\n"
      "all_gather ranks=2 windows up_to=64M direct blocks=64 threads=512\n"
      "all_reduce ranks=2-8 up_to=1M two_shot blocks=8 threads=64\n",
      "t");
  CHECK(table.look_up_config(Collective::all_gather, 2, 1 << 20, true).method == Method::direct);
  CHECK(table.look_up_config(Collective::all_gather, 2, 1 << 20, false).blocks == 8);
  CHECK(table.look_up_config(Collective::all_gather, 2, 1 << 10, true).blocks == 4);
  CHECK(table.look_up_config(Collective::all_gather, 2, 128 << 20, true) == kDelegated);
  CHECK(table.look_up_config(Collective::all_gather, 2, 2 << 20, false) == kDelegated);
  CHECK(table.look_up_config(Collective::all_reduce, 4, 4096, true).method == Method::two_shot);
  CHECK(Table::parse(table.text(), "t").hash() == table.hash());
  const Table without = Table::parse("all_gather ranks=2 up_to=1M exchange blocks=8 threads=64\n", "t");
  CHECK(without.hash() != table.hash());
}

TEST_CASE("invalid lines for windows are refused") {
  CHECK(contains(refusal("all_gather ranks=2 up_to=2K direct blocks=1 threads=32"),
                 "direct needs buffers in symmetric windows"));
  CHECK(contains(refusal("broadcast ranks=2 windows up_to=2K exchange blocks=1 threads=32"),
                 "broadcast does not use windows"));
  CHECK(contains(refusal("broadcast ranks=2 windows up_to=2K direct blocks=1 threads=32"),
                 "direct cannot run broadcast"));
  CHECK(contains(refusal("all_gather ranks=2 windows windows up_to=2K direct blocks=1 threads=32"),
                 "windows occurs twice"));
}
