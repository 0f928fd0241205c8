// Command lines that parse_options rejects, and random input.
#include <string>
#include <vector>

#include "options/flag_table.hpp"
#include "support_options.hpp"
#include "support_random.hpp"

using namespace busbw;

TEST_CASE("options: the error for a long value gives its beginning and its length") {
  const std::string value(5000, 'x');
  for (const std::string& line :
       {"-n " + value, "-d " + value, value, "--" + value, "--fault " + value, "--fault hang:rank=0,phase=" + value,
        "--fault " + value + ":rank=0", "--sizes " + value}) {
    const std::string sentence = refusal_of(line);
    CHECK_MESSAGE(sentence.size() < 900, line.substr(0, 20));
  }
  CHECK(refusal_of("-n " + value).find("... (5000 bytes)") != std::string::npos);
}

TEST_CASE("options: the error for wrong input names option, value and allowed values") {
  struct Wrong {
    const char* line;
    std::vector<std::string_view> named;
  };
  const std::vector<Wrong> all{
      {"--nonsense 3", {"--nonsense", "--help"}},
      {"-Q", {"-Q", "--help"}},
      {"8", {"8", "--help"}},
      {"-b", {"-b", "--help"}},
      {"--minbyte 8", {"--minbyte", "(did you mean --minbytes?)", "--help"}},
      {"--one_side 1", {"--one_side", "(did you mean --one_sided?)"}},
      {"--itres=8", {"--itres=8", "(did you mean --iters?)"}},
      {"-d flaot", {"-d", "flaot", "float", "f8e5m2 all (did you mean float?)"}},
      {"-d float32", {"-d", "float32", "double"}},
      {"-d FLOAT", {"-d", "FLOAT", "float"}},
      {"-o summ", {"-o", "summ", "(did you mean sum?)", "sum", "mulsum", "all"}},
      {"-r 1", {"-r", "1", "0", "all"}},
      {"-t 4 -r 4", {"-r", "4", "0 to 3", "all"}},
      {"-r -2", {"-r", "-2", "all"}},
      {"-r first", {"-r", "first", "all"}},
      {"-b 1Q", {"-b", "1Q", "K, M, G or T"}},
      {"-b -1", {"-b", "-1", "K, M, G or T"}},
      {"--minbytes=-1", {"--minbytes", "-1", "K, M, G or T"}},
      {"-b 0", {"-b", "0", "1 byte"}},
      {"-b 32MQ", {"-b", "32MQ", "K, M, G or T"}},
      {"-e 1.5", {"-e", "1.5"}},
      {"-e 0x10", {"-e", "0x10"}},
      {"-b 2M -e 1M", {"-b", "2M", "-e", "1M"}},
      {"-b 64M", {"-b", "64M", "-e", "32M"}},
      {"-f 0", {"-f", "0", "from 1"}},
      {"-f -2", {"-f", "-2", "from 1"}},
      {"-f 1.5", {"-f", "1.5", "whole number"}},
      {"-i 0", {"-i", "0", "1 byte"}},
      {"-n 0", {"-n", "0", "from 1"}},
      {"-n 10k", {"-n", "10k", "whole number"}},
      {"-n 1e3", {"-n", "1e3", "whole number"}},
      {"-n 010", {"-n", "010", "whole number"}},
      {"-n 99999999999", {"-n", "99999999999", "whole number"}},
      {"-t 0", {"-t", "0", "from 1"}},
      {"-t -4", {"-t", "-4", "from 1"}},
      {"-t 2000", {"-t", "2000", "1024"}},
      {"--processes 0", {"--processes", "0", "from 1"}},
      {"--processes 64 -t 64", {"--processes", "64", "-t", "4096", "1024"}},
      {"-g 0", {"-g", "0", "from 1"}},
      {"-z 9", {"-z", "9", "0 to 3"}},
      {"-z -1", {"-z", "-1", "0 to 3"}},
      {"-a 4", {"-a", "4", "0 to 3"}},
      {"-c -1", {"-c", "-1", "from 0"}},
      {"-w -1", {"-w", "-1", "from 0"}},
      {"-m 0", {"-m", "0", "from 1"}},
      {"-N -1", {"-N", "-1", "from 0"}},
      {"-u -1", {"-u", "-1", "from 0"}},
      {"-T -5", {"-T", "-5", "from 0"}},
      {"-T 5s", {"-T", "5s", "whole number"}},
      {"-I 2", {"-I", "2", "0 to 1"}},
      {"-C yes", {"-C", "yes", "0 to 1"}},
      {"-S 2", {"-S", "2", "0 to 1"}},
      {"-p 2", {"-p", "2", "0 to 1"}},
      {"-K 3", {"-K", "3", "-I 1"}},
      {"-I 1 -K 20", {"-K", "20", "19", "-n 20"}},
      {"-I 1 -n 5 -K 5", {"-K", "5", "4"}},
      {"-I 1 -K -1", {"-K", "-1", "from 0"}},
      {"-z 1 -G 2", {"-z 1", "-G 2"}},
      {"-z 3 -G 1", {"-G"}},
      {"-J out.txt", {"-J", "out.txt", ".json"}},
      {"-J json", {"-J", "json", ".json"}},
      {"--target-ci 0", {"--target-ci", "0", "1%"}},
      {"--target-ci 100%", {"--target-ci", "100%", "1%"}},
      {"--target-ci -1%", {"--target-ci", "-1%", "1%"}},
      {"--target-ci abc", {"--target-ci", "abc", "1%"}},
      {"--max-time 0", {"--max-time", "0", "60s"}},
      {"--max-time 1h", {"--max-time", "1h", "60s"}},
      {"--fault overrun:rank=1", {"--fault with rank=1", "0 to 0"}},
      {"--ping-pong 2", {"--ping-pong", "2", "0 to 1"}},
  };
  for (const Wrong& wrong : all) {
    CAPTURE(wrong.line);
    const std::string sentence = refusal_of(wrong.line);
    CAPTURE(sentence);
    CHECK(sentence.find('\n') == std::string::npos);
    for (const std::string_view part : wrong.named) {
      CAPTURE(part);
      CHECK(sentence.find(part) != std::string::npos);
    }
  }
}

TEST_CASE("options: empty values are errors") {
  for (const Flag& flag : flag_table()) {
    if (flag.long_name == "--backend") continue;  // choose_backend reads it
    CAPTURE(flag.long_name);
    refusal_of(std::vector<std::string>{std::string(flag.long_name), ""});
    refusal_of(std::vector<std::string>{std::string(flag.long_name) + "="});
  }
}

TEST_CASE("options: the error for a missing value contains the flag's names") {
  for (const Flag& flag : flag_table()) {
    if (!applies_to(flag, "all_reduce")) continue;
    check_names(refusal_of(std::vector<std::string>{std::string(flag.long_name)}),
                {spelling(flag.long_name), "value", "--help"});
    if (!flag.short_name.empty())
      check_names(refusal_of(std::vector<std::string>{"-n", "3", std::string(flag.short_name)}),
                  {spelling(flag.long_name), "value"});
  }
}

TEST_CASE("options: a flag is not the value of a flag before it") {
  for (const char* next : {"--records", "--records=x.jsonl", "-f", "--stepfactor"})
    check_names(refusal_of(std::vector<std::string>{"-b", "4", "-e", next, "2"}),
                {"-e (--maxbytes): a value is missing; see all_reduce_perf --help"});
}

TEST_CASE("options: the error for a flag of other programs says so, also if comm_ops has the flag") {
  CHECK(refusal_of("-b 8", {}, "flows") == "-b (--minbytes) 8: flows has no such flag; drop it");
  CHECK(refusal_of("-p 1", {}, "flows") == "-p (--parallel_init) 1: flows has no such flag; drop it");
}

TEST_CASE("options: random input gives options, a request or a usage error") {
  Random random(7);
  std::vector<std::string> fragments{"-",           "--",        "=",        "",
                                     " ",           "-b",        "-e",       "-f",
                                     "-t",          "-h",        "--help",   "--version",
                                     "all",         "1",         "0",        "-1",
                                     "8",           "1M",        "1Q",       "nan",
                                     "{}",          "[1,2]",     "[",        "\"",
                                     "'",           "%%",        "%s%n",     "--minbytes=",
                                     "--sizes=1,,", "\\",        "\xff\xfe", "999999999999999999999",
                                     "0x",          "--no-such", "-abc",     "--=",
                                     "-=",          "--b",       "@file",    "#",
                                     "float",       "sum",       ";"};
  for (const Flag& flag : flag_table()) {
    fragments.emplace_back(flag.long_name);
    if (!flag.short_name.empty()) fragments.emplace_back(flag.short_name);
  }
  int good = 0;
  int refused = 0;
  for (int round = 0; round < 1000; ++round) {
    std::vector<std::string> arguments(random.below(6));
    for (std::string& argument : arguments) {
      argument = random.one_of(fragments);
      if (random.below(3) == 0) argument += random.one_of(fragments);
      if (random.below(8) == 0) argument += random.text("abc019-=.,%KMG \t\n\x01\x80", 6);
    }
    std::string line;
    for (const std::string& argument : arguments) line += " <" + argument + ">";
    CAPTURE(line);
    try {
      parse(arguments);
      ++good;
    } catch (const UsageError& error) {
      ++refused;
      REQUIRE(error.exit() == ExitCode::usage);
      REQUIRE(std::string(error.what()).size() > 10);
    }
  }
  CHECK(good > 25);
  CHECK(refused > 250);
}

TEST_CASE("options: accepted values are within their bounds") {
  Random random(8);
  const std::vector<std::string> values{"-1", "0",    "1",          "2",          "3",  "8",
                                        "20", "1024", "0x7fffffff", "2147483648", "1G", "1e18"};
  for (int round = 0; round < 1000; ++round) {
    std::vector<std::string> arguments;
    for (std::size_t i = random.below(5); i > 0; --i) {
      const Flag& flag = random.one_of(flag_table());
      arguments.push_back(std::string(flag.long_name) + "=" + random.one_of(values));
    }
    try {
      const auto parsed = parse(arguments);
      const auto* options = std::get_if<Options>(&parsed);
      if (!options) continue;
      const RunSettings& settings = options->settings;
      REQUIRE(settings.threads >= 1);
      REQUIRE(settings.processes >= 1);
      REQUIRE(options->ranks() >= 1);
      REQUIRE(options->ranks() <= 1024);
      REQUIRE(settings.min_bytes >= 1);
      REQUIRE(settings.max_bytes >= settings.min_bytes);
      REQUIRE(settings.step_bytes >= (settings.sizes_bytes.empty() ? 1 : 0));
      REQUIRE(settings.step_factor >= 1);
      REQUIRE(settings.iterations >= 1);
      REQUIRE(settings.per_iteration_skip < settings.iterations);
      REQUIRE(settings.aggregated_iterations >= 1);
      REQUIRE(settings.unalign_elements >= 0);
      if (options->data.root) REQUIRE(*options->data.root < options->ranks());
    } catch (const UsageError&) {
    }
  }
}

TEST_CASE("options: CUDA cannot capture the null stream, so -y and -G exclude each other") {
  check_names(refusal_of("-y 1 -G 4"), {"-y 1", "-G 4", "null stream"});
  CHECK(options_of("-y 0 -G 0").settings.graph_launches == 0);
}
