#include "rendezvous/world/slurm_step.hpp"

#include <string>
#include <vector>

#include "support_environment.hpp"
#include "support_errors.hpp"

using namespace busbw;

namespace {

template <class Call>
auto under(const Variables& variables, Call call) {
  made_up_environment() = variables;
  return call(look_up);
}

std::optional<int> local_size(const char* tasks, const char* node) {
  return under({{"SLURM_STEP_TASKS_PER_NODE", tasks}, {"SLURM_NODEID", node}}, slurm_local_size);
}

}  // namespace

TEST_CASE("Slurm: only steps of srun have tasks") {
  CHECK(under({{"SLURM_STEP_ID", "0"}}, is_slurm_task));
  CHECK(under({{"SLURM_STEPID", "17"}}, is_slurm_task));
  CHECK_FALSE(under({{"SLURM_JOB_ID", "3"}, {"SLURM_PROCID", "0"}}, is_slurm_task));
  // Batch, extern and interactive steps, as numbered by Slurm before and since 20.11.
  for (const char* step : {"4294967291", "4294967292", "4294967290", "4294967294", "4294967295", "batch", ""})
    CHECK_FALSE(under({{"SLURM_STEP_ID", step}}, is_slurm_task));
}

TEST_CASE("Slurm: tasks on this node") {
  CHECK(local_size("4", "0") == 4);
  CHECK(local_size("3,1", "0") == 3);
  CHECK(local_size("3,1", "1") == 1);
  CHECK(local_size("2(x3),1", "2") == 2);
  CHECK(local_size("2(x3),1", "3") == 1);
  CHECK_FALSE(under({{"SLURM_NODEID", "0"}}, slurm_local_size));
  const std::vector<std::pair<const char*, const char*>> wrong{
      {"2(x3),1", "4"}, {"", "0"},  {"x", "0"},  {"2(x", "0"},    {"2(x3", "0"},           {"2(3)", "0"},
      {"-2", "0"},      {"2", "x"}, {"2", "-1"}, {"2(x-1)", "0"}, {"2(x99999999999)", "0"}};
  for (const auto& [tasks, node] : wrong) {
    CAPTURE(tasks);
    check_names(sentence_of<UsageError>([&] { local_size(tasks, node); }),
                {std::string("SLURM_STEP_TASKS_PER_NODE=") + tasks, std::string("SLURM_NODEID=") + node, "2(x3),1"});
  }
}

TEST_CASE("Slurm: a step of several components is an error") {
  Variables variables{{"SLURM_HET_SIZE", "2"},
                      {"SLURM_JOB_NODELIST_HET_GROUP_0", "n3"},
                      {"SLURM_JOB_NODELIST_HET_GROUP_1", "n[1-2]"},
                      {"SLURM_STEP_NODELIST", "n[1-3]"}};
  check_names(sentence_of<UsageError>([&] { under(variables, slurm_first_host_candidates); }),
              {"SLURM_HET_SIZE=2", "SLURM_STEP_NODELIST=n[1-3]", "BUSBW_RENDEZVOUS"});
  variables["SLURM_STEP_NODELIST"] = "n[1-2]";  // srun --het-group=1
  CHECK(under(variables, slurm_first_host_candidates) == std::vector<std::string>{"n1"});
  variables["SLURM_STEP_NODELIST"] = "n3";
  CHECK(under(variables, slurm_first_host_candidates) == std::vector<std::string>{"n3"});
}

TEST_CASE("Slurm: the first node of the step, then the host of srun") {
  using Hosts = std::vector<std::string>;
  CHECK(under({{"SLURM_STEP_NODELIST", "n[07-09],m1"}, {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.7"}},
              slurm_first_host_candidates) == Hosts{"n07", "10.0.0.7"});
  CHECK(under({{"SLURM_STEP_NODELIST", "n3"}}, slurm_first_host_candidates) == Hosts{"n3"});
  CHECK(under({}, slurm_first_host_candidates).empty());
  CHECK_THROWS_AS(under({{"SLURM_STEP_NODELIST", "n[3"}}, slurm_first_host_candidates), UsageError);
  CHECK_THROWS_AS(under({{"SLURM_LAUNCH_NODE_IPADDR", "a b"}}, slurm_first_host_candidates), UsageError);
}

TEST_CASE("Slurm: the first reserved port, or a port that differs between steps and jobs") {
  CHECK(under({{"SLURM_STEP_RESV_PORTS", "18001-18004"}}, slurm_port) == 18001);
  CHECK(under({{"SLURM_STEP_RESV_PORTS", "18001,18007"}}, slurm_port) == 18001);
  CHECK(under({{"SLURM_STEP_RESV_PORTS", "18001"}}, slurm_port) == 18001);
  CHECK_THROWS_AS(under({{"SLURM_STEP_RESV_PORTS", "-"}}, slurm_port), UsageError);
  const auto port = [](const char* job, const char* step) {
    return under({{"SLURM_JOB_ID", job}, {"SLURM_STEP_ID", step}}, slurm_port);
  };
  CHECK(port("7", "0") == port("7", "0"));
  CHECK(port("7", "0") != port("7", "1"));
  CHECK(port("7", "0") != port("8", "0"));
}
