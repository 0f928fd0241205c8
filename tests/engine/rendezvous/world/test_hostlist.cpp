#include "rendezvous/world/hostlist.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "support_errors.hpp"
#include "support_random.hpp"

using namespace busbw;

namespace {

using Hosts = std::vector<std::string>;

/// A generated host list with its expansion.
struct Example {
  std::string list;
  Hosts hosts;
};

Example random_name(Random& random) {
  Example example{"n" + random.text("ab-", 3), {}};
  example.hosts = {example.list};
  for (std::size_t bracket = random.below(3); bracket > 0; --bracket) {
    Hosts numbers;
    std::string ranges;
    for (std::size_t range = 1 + random.below(3); range > 0; --range) {
      const std::size_t first = random.below(120), last = first + random.below(4), width = random.below(5);
      for (std::size_t number = first; number <= last; ++number)
        numbers.push_back(fmt::format("{:0{}}", number, width));
      if (!ranges.empty()) ranges += ',';
      ranges += first == last ? fmt::format("{:0{}}", first, width)
                              : fmt::format("{:0{}}-{:0{}}", first, width, last, random.below(2) == 0 ? width : 0);
    }
    const std::string after = random.text("xy-", 2);
    example.list += "[" + ranges + "]" + after;
    Hosts longer;
    for (const std::string& host : example.hosts)
      for (const std::string& number : numbers) longer.push_back(host + number + after);
    example.hosts = longer;
  }
  return example;
}

Example random_list(Random& random) {
  Example all;
  for (std::size_t name = 1 + random.below(4); name > 0; --name) {
    const Example one = random_name(random);
    all.list += (all.list.empty() ? "" : ",") + one.list;
    all.hosts.insert(all.hosts.end(), one.hosts.begin(), one.hosts.end());
  }
  return all;
}

/// Expands a list with Slurm's scontrol. Empty if it is not installed.
Hosts slurm_expands(const std::string& list) {
  const std::string command = "scontrol show hostnames '" + list + "' 2>/dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  Hosts hosts;
  std::array<char, 512> line;
  while (pipe && fgets(line.data(), line.size(), pipe.get())) {
    hosts.emplace_back(line.data());
    hosts.back().pop_back();
  }
  return hosts;
}

}  // namespace

TEST_CASE("hostlist: Slurm's formats") {
  CHECK(expand_hostlist("n1") == Hosts{"n1"});
  CHECK(expand_hostlist("n1,login,gpu-a.cluster.org") == Hosts{"n1", "login", "gpu-a.cluster.org"});
  CHECK(expand_hostlist("n[1-3,07-09]") == Hosts{"n1", "n2", "n3", "n07", "n08", "n09"});
  CHECK(expand_hostlist("n[9-11]") == Hosts{"n9", "n10", "n11"});
  CHECK(expand_hostlist("n[099-101]") == Hosts{"n099", "n100", "n101"});
  CHECK(expand_hostlist("gpu-a[01-02]-x,b[3]") == Hosts{"gpu-a01-x", "gpu-a02-x", "b3"});
  CHECK(expand_hostlist("r[1-2]n[1-2]") == Hosts{"r1n1", "r1n2", "r2n1", "r2n2"});
  CHECK(expand_hostlist("[1-2]") == Hosts{"1", "2"});
}

TEST_CASE("hostlist: generated lists expand to their hosts, in order") {
  Random random(7);
  for (int round = 0; round < 2000; ++round) {
    const Example example = random_list(random);
    CAPTURE(example.list);
    CHECK(expand_hostlist(example.list) == example.hosts);
  }
}

TEST_CASE("hostlist: same results as scontrol, if it is installed") {
  if (slurm_expands("n[1-2]") != Hosts{"n1", "n2"}) {
    MESSAGE("not compared: no working scontrol");
    return;
  }
  Random random(8);
  int compared = 0;
  for (int round = 0; round < 60; ++round) {
    const Example example = random_list(random);
    const Hosts slurms = slurm_expands(example.list);
    if (slurms.empty()) continue;  // some versions reject text after a bracket
    ++compared;
    CAPTURE(example.list);
    CHECK(expand_hostlist(example.list) == slurms);
  }
  CHECK(compared > 10);
}

TEST_CASE("hostlist: rejects invalid lists") {
  for (const char* list : {"",         ",",     "n1,",   ",n1",    "n1,,n2",
                           "n[",       "n]",    "n[1",   "n1]",    "n[]",
                           "n[1-]",    "n[-1]", "n[a]",  "n[1-a]", "n[3-1]",
                           "n[1-2-3]", "n[1,]", "n[,1]", "n[[1]]", "n[1]]",
                           "n[1 ]",    "n 1",   "n\n1",  "n[+1]",  "n[99999999999999999999]",
                           "n[0x1]"}) {
    CAPTURE(list);
    check_names(sentence_of<UsageError>([&] { expand_hostlist(list); }), {"the list of hosts", "n[1-3,07-09]"});
  }
}

TEST_CASE("hostlist: the message names the list and the empty part") {
  const auto message = [](const char* list) { return sentence_of<UsageError>([&] { expand_hostlist(list); }); };
  check_names(message("n1 n2"), {"\"n1 n2\" has a blank"});
  check_names(message("n1\n"), {"\"n1\\n\" has a blank or a control character"});
  check_names(message("n1,,n2"), {"has an empty name"});
  check_names(message("n[1,,2]"), {"has an empty range"});
  check_names(message("n[]"), {"has an empty range"});
}

TEST_CASE("hostlist: bounds the number of hosts") {
  CHECK(expand_hostlist("n[1-65536]").size() == 65536);
  for (const char* list : {"n[1-65537]", "n[0-999999999999999999]", "a[1-60000],b[1-60000]", "a[1-300][1-300]",
                           "a[1-65536][1-65536][1-65536]"})
    check_names(sentence_of<UsageError>([&] { expand_hostlist(list); }), {"more than 65536 hosts"});
  check_names(sentence_of<UsageError>([&] { expand_hostlist(std::string(256, 'n')); }),
              {"more than 255 characters", "..."});
}

TEST_CASE("hostlist: random text gives hosts or UsageError") {
  Random random(9);
  for (int round = 0; round < 20000; ++round) {
    const std::string list = random.text("n1-9,[]0x", 12);
    CAPTURE(list);
    try {
      for (const std::string& host : expand_hostlist(list)) CHECK_FALSE(host.empty());
    } catch (const UsageError&) {
    }
  }
}
