#include "rendezvous/world/launcher_table.hpp"

#include <set>
#include <string>

#include "support_environment.hpp"
#include "support_errors.hpp"

using namespace busbw;

TEST_CASE("launcher table: every entry has the required fields") {
  std::set<std::string_view> names;
  for (const LauncherEntry& row : launcher_table()) {
    CAPTURE(row.name);
    CHECK(names.insert(row.name).second);
    CHECK(row.name != "none");
    CHECK_FALSE(row.title.empty());
    CHECK_FALSE(row.start_remedy.empty());
    CHECK_FALSE(row.required_any.empty());
    CHECK_FALSE(row.rank.empty());
    CHECK_FALSE(row.size.empty());
  }
  CHECK(names == std::set<std::string_view>{"busbw", "kubernetes", "slurm", "torchrun", "openmpi", "mpich"});
}

TEST_CASE("launcher table: skips the port of torchrun's agent if workers share its store") {
  const LauncherEntry* torchrun = nullptr;
  for (const LauncherEntry& row : launcher_table())
    if (row.name == "torchrun") torchrun = &row;
  REQUIRE(torchrun != nullptr);
  const auto port = [&](const Variables& variables) {
    made_up_environment() = variables;
    return torchrun->port_from(look_up);
  };
  CHECK(port({{"MASTER_PORT", "29500"}}) == 29500);
  CHECK(port({{"MASTER_PORT", "29500"}, {"TORCHELASTIC_USE_AGENT_STORE", "False"}}) == 29500);
  CHECK(port({{"MASTER_PORT", "29500"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}}) == 29501);
  check_names(sentence_of<UsageError>([&] { port({}); }), {"MASTER_PORT is not set", "BUSBW_RENDEZVOUS"});
  check_names(sentence_of<UsageError>([&] { port({{"MASTER_PORT", "99999"}}); }), {"MASTER_PORT", "99999", "65535"});
  CHECK_THROWS_AS(port({{"MASTER_PORT", "65535"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}}), UsageError);
}
