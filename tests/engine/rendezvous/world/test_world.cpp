#include "rendezvous/world/world.hpp"

#include <string>
#include <vector>

#include "rendezvous/world/launcher_table.hpp"
#include "support_environment.hpp"
#include "support_errors.hpp"
#include "support_files.hpp"

using namespace busbw;

namespace {

/// Ancestors set by a test, the parent first.
Ancestors& fake_ancestors() {
  thread_local Ancestors ancestors;
  return ancestors;
}

World world(const Variables& variables, const Ancestors& ancestors = {}) {
  made_up_environment() = variables;
  fake_ancestors() = ancestors;
  return detect_world(look_up, [] { return fake_ancestors(); });
}
std::string world_refusal(const Variables& variables, const Ancestors& ancestors = {}) {
  return sentence_of<UsageError>([&] { world(variables, ancestors); });
}

Variables operator+(Variables left, const Variables& right) {
  for (const auto& [name, value] : right) left[name] = value;
  return left;
}
Variables without(Variables variables, std::initializer_list<const char*> names) {
  for (const char* name : names) variables.erase(name);
  return variables;
}

bool alone(const World& found) {
  return found.rank == 0 && found.size == 1 && std::holds_alternative<NoStore>(found.store) && found.token.empty();
}
StoreAddress tcp(std::vector<std::string> hosts, int port) { return TcpStoreAddress{std::move(hosts), port}; }

// Variables of real launchers: Slurm 22.05, Open MPI 5.0.11, MPICH 5.0.2.
const Variables kSlurm{{"SLURM_CLUSTER_NAME", "virt"},
                       {"SLURM_JOB_ID", "2"},
                       {"SLURM_JOBID", "2"},
                       {"SLURM_JOB_NUM_NODES", "2"},
                       {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.9"},
                       {"SLURM_LOCALID", "0"},
                       {"SLURM_NNODES", "2"},
                       {"SLURM_NODEID", "1"},
                       {"SLURM_NPROCS", "4"},
                       {"SLURM_NTASKS", "4"},
                       {"SLURM_PROCID", "3"},
                       {"SLURM_STEPID", "0"},
                       {"SLURM_STEP_ID", "0"},
                       {"SLURM_STEP_NODELIST", "n[1-2]"},
                       {"SLURM_STEP_NUM_NODES", "2"},
                       {"SLURM_STEP_NUM_TASKS", "4"},
                       {"SLURM_STEP_RESV_PORTS", "28001-28004"},
                       {"SLURM_STEP_TASKS_PER_NODE", "3,1"},
                       {"SLURM_TASKS_PER_NODE", "3,1"}};
const Variables kPmi2{{"PMI_FD", "11"}, {"PMI_JOBID", "2.0"}, {"PMI_RANK", "3"}, {"PMI_SIZE", "4"}};
const Variables kSlurmBatch{{"SLURM_CLUSTER_NAME", "virt"}, {"SLURM_JOB_ID", "3"},
                            {"SLURM_JOB_NUM_NODES", "2"},   {"SLURM_LOCALID", "0"},
                            {"SLURM_NNODES", "2"},          {"SLURM_NODEID", "0"},
                            {"SLURM_NPROCS", "8"},          {"SLURM_NTASKS", "8"},
                            {"SLURM_PROCID", "0"},          {"SLURM_TASKS_PER_NODE", "4(x2)"}};
const Variables kOpenMpi5{{"OMPI_COMM_WORLD_LOCAL_RANK", "1"},     {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                          {"OMPI_COMM_WORLD_NODE_RANK", "1"},      {"OMPI_COMM_WORLD_RANK", "1"},
                          {"OMPI_COMM_WORLD_SIZE", "2"},           {"OMPI_UNIVERSE_SIZE", "2"},
                          {"PMIX_NAMESPACE", "prterun-vm-2466@1"}, {"PMIX_RANK", "1"}};
const Variables kMpich{
    {"MPI_LOCALNRANKS", "2"}, {"MPI_LOCALRANKID", "1"}, {"PMI_FD", "11"}, {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}};
const Variables kTorchrun{{"RANK", "5"},
                          {"WORLD_SIZE", "8"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "4"},
                          {"GROUP_RANK", "1"},
                          {"GROUP_WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "n1"},
                          {"MASTER_PORT", "29500"},
                          {"TORCHELASTIC_RUN_ID", "job7"},
                          {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
const Variables kPyTorchJob{{"RANK", "1"},
                            {"WORLD_SIZE", "2"},
                            {"MASTER_ADDR", "job-master-0"},
                            {"MASTER_PORT", "23456"},
                            {"KUBERNETES_SERVICE_HOST", "10.0.0.1"}};
const Variables kIndexedJob{{"JOB_COMPLETION_INDEX", "2"},
                            {"BUSBW_SIZE", "4"},
                            {"BUSBW_RENDEZVOUS", "tcp://job-0.service:23456"},
                            {"KUBERNETES_SERVICE_HOST", "10.0.0.1"}};
const Variables kBusbw{{"BUSBW_RANK", "3"},       {"BUSBW_SIZE", "4"}, {"BUSBW_LOCAL_RANK", "1"},
                       {"BUSBW_LOCAL_SIZE", "2"}, {"BUSBW_NODE", "1"}, {"BUSBW_RENDEZVOUS", "tcp://[::1]:5000"},
                       {"BUSBW_TOKEN", "secret"}};

}  // namespace

TEST_CASE("world: without a launcher a process is alone") {
  const World found = world({{"PATH", "/bin"}, {"RANK", "gold"}, {"LOCAL_RANK", "x"}, {"BUSBW_LOCAL_SIZE", "x"}});
  CHECK(alone(found));
  CHECK(found.launcher == "none");
  CHECK(found.notes.empty());
}

TEST_CASE("world: srun without an MPI plugin, and with one that agrees") {
  for (const Variables& variables :
       {kSlurm, kSlurm + kPmi2, kSlurm + Variables{{"PMIX_RANK", "3"}, {"PMIX_NAMESPACE", "slurm.pmix.2.0"}}}) {
    const World found = world(variables, {{40, "slurmstepd"}, {1, "init"}});
    CHECK(found.launcher == "slurm");
    CHECK(found.rank == 3);
    CHECK(found.size == 4);
    CHECK(found.local_rank == 0);
    CHECK(found.local_size == 1);
    CHECK(found.node == 1);
    CHECK(found.store == tcp({"n1", "10.0.0.9"}, 28001));
    CHECK(found.token == "slurm-virt-2-0");
    CHECK(found.join_limit_s == 60);
    REQUIRE(found.notes.size() == 1);
    check_names(found.notes[0], {"Slurm", "not secret", "BUSBW_TOKEN_FILE"});
  }
}

TEST_CASE("world: srun on one node needs no host name") {
  const World found =
      world(kSlurm + Variables{{"SLURM_STEP_TASKS_PER_NODE", "4"}, {"SLURM_NODEID", "0"}, {"SLURM_LOCALID", "3"}});
  CHECK(found.store == tcp({"127.0.0.1"}, 28001));
  CHECK(found.local_size == 4);
  CHECK(found.local_rank == 3);
}

TEST_CASE("world: srun without reserved ports") {
  const Variables none = without(kSlurm, {"SLURM_STEP_RESV_PORTS"});
  const World found = world(none);
  CHECK(found.store == world(none + Variables{{"SLURM_PROCID", "0"}}).store);
  CHECK(found.store != world(none + Variables{{"SLURM_STEP_ID", "1"}}).store);
}

TEST_CASE("world: a batch script or salloc's shell for several tasks is an error") {
  const Variables shell = without(kSlurmBatch, {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"});
  const Variables interactive = kSlurmBatch + Variables{{"SLURM_STEP_ID", "4294967290"}};
  for (const Variables& variables :
       {kSlurmBatch, shell, interactive, kSlurmBatch + Variables{{"BUSBW_LAUNCHER", "slurm"}}})
    check_names(world_refusal(variables), {"SLURM_NTASKS=8", "job 3", "8 tasks", "would run alone",
                                           "type srun before the program", "BUSBW_LAUNCHER=none"});
  check_names(world_refusal(without(kSlurmBatch, {"SLURM_NTASKS", "SLURM_NPROCS"})),
              {"SLURM_JOB_NUM_NODES=2", "2 nodes", "srun"});
}

TEST_CASE("world: an allocation for one task and one task of srun are not errors") {
  // sbatch without -n sets no SLURM_NTASKS; --exclusive makes SLURM_TASKS_PER_NODE the number of processors.
  const Variables one{{"SLURM_JOB_ID", "7"},
                      {"SLURM_JOB_NUM_NODES", "1"},
                      {"SLURM_NNODES", "1"},
                      {"SLURM_PROCID", "0"},
                      {"SLURM_TASKS_PER_NODE", "64"}};
  CHECK(alone(world(one)));
  CHECK(world(one).launcher == "none");
  CHECK(alone(world(one + Variables{{"SLURM_NTASKS", "1"}})));
  const World task = world(kSlurm + Variables{{"SLURM_PROCID", "0"},
                                              {"SLURM_STEP_NUM_TASKS", "1"},
                                              {"SLURM_NTASKS", "1"},
                                              {"SLURM_STEP_TASKS_PER_NODE", "1"},
                                              {"SLURM_NODEID", "0"}});
  CHECK(alone(task));
  CHECK(task.launcher == "slurm");
}

TEST_CASE("world: Open MPI on one node, in and out of a batch script") {
  for (const Variables& variables : {kOpenMpi5, kSlurmBatch + kOpenMpi5}) {
    const World found = world(variables, {{50, "prterun"}});
    CHECK(found.launcher == "openmpi");
    CHECK(found.rank == 1);
    CHECK(found.size == 2);
    CHECK(found.local_rank == 1);
    CHECK(found.local_size == 2);
    CHECK_FALSE(found.node);
    CHECK(found.token == "openmpi-prterun-vm-2466@1");
    const auto* store = std::get_if<TcpStoreAddress>(&found.store);
    REQUIRE(store != nullptr);
    CHECK(store->hosts == std::vector<std::string>{"127.0.0.1"});
    CHECK(store->port >= 23000);
    CHECK(found.store == world(kOpenMpi5 + Variables{{"OMPI_COMM_WORLD_RANK", "0"}}).store);
    CHECK(found.store != world(kOpenMpi5 + Variables{{"PMIX_NAMESPACE", "prterun-vm-2467@1"}}).store);
  }
}

TEST_CASE("world: MPICH on one node is identified by the daemon that started it") {
  const World found = world(kMpich, {{70, "bash"}, {71, "hydra_pmi_proxy"}, {72, "mpirun"}});
  CHECK(found.launcher == "mpich");
  CHECK(found.local_rank == 1);
  CHECK(found.token == "mpich-hydra_pmi_proxy-71");
  CHECK(std::get<TcpStoreAddress>(found.store).hosts.front() == "127.0.0.1");
  CHECK(found.store != world(kMpich, {{73, "hydra_pmi_proxy"}}).store);
  // A container hides the ancestors, so the launcher's store is needed.
  CHECK(world(kMpich, {{1, "bash"}}).store == StoreAddress(LauncherStoreChoice{LauncherStore::pmi1}));
  check_names(world_refusal(without(kMpich, {"PMI_FD"}), {{1, "bash"}}),
              {"PMI_SIZE=2", "the address of process 0 is unknown", "BUSBW_RENDEZVOUS"});
}

TEST_CASE("world: mpirun over several nodes shares the address through its key-value store") {
  const World by_pmix = world(kOpenMpi5 + Variables{{"OMPI_COMM_WORLD_SIZE", "4"}}, {{50, "prted"}});
  CHECK(by_pmix.store == StoreAddress(LauncherStoreChoice{LauncherStore::pmix}));
  const World by_pmi1 = world(kMpich + Variables{{"PMI_SIZE", "4"}}, {{71, "hydra_pmi_proxy"}});
  CHECK(by_pmi1.store == StoreAddress(LauncherStoreChoice{LauncherStore::pmi1}));
  // Process 0 makes a secret token, so the name of the job is not used as one.
  CHECK(by_pmix.token.empty());
  CHECK(by_pmix.notes.empty());
  const World with_token = world(kOpenMpi5 + Variables{{"OMPI_COMM_WORLD_SIZE", "4"}, {"BUSBW_TOKEN", "secret"}});
  CHECK(with_token.token == "secret");
}

TEST_CASE("world: mpirun over several nodes without its key-value store needs BUSBW_RENDEZVOUS") {
  check_names(world_refusal(without(kOpenMpi5, {"PMIX_NAMESPACE"}) + Variables{{"OMPI_COMM_WORLD_SIZE", "4"}}),
              {"OMPI_COMM_WORLD_SIZE=4", "4 processes", "the address of process 0 is unknown", "busbw launch mpirun",
               "-x BUSBW_RENDEZVOUS="});
  check_names(world_refusal(without(kMpich, {"PMI_FD"}) + Variables{{"PMI_SIZE", "4"}}, {{71, "hydra_pmi_proxy"}}),
              {"-genv BUSBW_RENDEZVOUS"});
  const World found =
      world(kOpenMpi5 + Variables{{"OMPI_COMM_WORLD_SIZE", "4"}, {"BUSBW_RENDEZVOUS", "file:///shared"}});
  CHECK(found.store == StoreAddress(FileStoreAddress{"/shared"}));
  CHECK(found.token == "openmpi-prterun-vm-2466@1");
}

TEST_CASE("world: torchrun does not use its agent's port; a PyTorchJob has no agent") {
  const World found = world(kTorchrun);
  CHECK(found.launcher == "torchrun");
  CHECK(found.rank == 5);
  CHECK(found.size == 8);
  CHECK(found.local_rank == 1);
  CHECK(found.local_size == 4);
  CHECK(found.node == 1);
  CHECK(found.store == tcp({"n1"}, 29501));
  CHECK(found.token == "torchrun-job7");
  const World job = world(kPyTorchJob);
  CHECK(job.store == tcp({"job-master-0"}, 23456));
  CHECK(job.join_limit_s == 600);
  CHECK(job.token.empty());
  REQUIRE(job.notes.size() == 1);
  check_names(job.notes[0], {"no token", "BUSBW_TOKEN_FILE"});
  // A PyTorchJob may set MASTER_ADDR=localhost for its master.
  const Variables on_localhost{{"RANK", "0"}, {"MASTER_ADDR", "localhost"}};
  CHECK(world(kPyTorchJob + on_localhost).store == tcp({"0.0.0.0"}, 23456));
  CHECK(world(without(kPyTorchJob, {"KUBERNETES_SERVICE_HOST"}) + on_localhost).store == tcp({"localhost"}, 23456));
  // torchrun calls a run without a name "none".
  CHECK(world(kTorchrun + Variables{{"TORCHELASTIC_RUN_ID", "none"}}).token.empty());
  check_names(world_refusal(without(kTorchrun, {"MASTER_PORT"})), {"MASTER_PORT is not set"});
  check_names(world_refusal(without(kTorchrun, {"MASTER_ADDR"})),
              {"WORLD_SIZE=8", "the address of process 0 is unknown", "MASTER_ADDR"});
}

TEST_CASE("world: a pod of an Indexed Job") {
  const World found = world(kIndexedJob + Variables{{"BUSBW_TOKEN", "secret"}});
  CHECK(found.launcher == "kubernetes");
  CHECK(found.rank == 2);
  CHECK(found.size == 4);
  CHECK(found.store == tcp({"job-0.service"}, 23456));
  CHECK(found.token == "secret");
  CHECK(found.join_limit_s == 600);
  CHECK(found.notes.empty());
  check_names(world_refusal(without(kIndexedJob, {"BUSBW_SIZE"})),
              {"JOB_COMPLETION_INDEX=2", "BUSBW_SIZE", "would run alone", "completions", "BUSBW_LAUNCHER=none"});
  check_names(world_refusal(without(kIndexedJob, {"BUSBW_RENDEZVOUS"})),
              {"the address of process 0 is unknown", "BUSBW_RENDEZVOUS=tcp://<job>-0.<service>"});
}

TEST_CASE("world: BUSBW_ variables override other launchers") {
  for (const Variables& variables : {kBusbw, kSlurmBatch + kBusbw, kSlurm + kOpenMpi5 + kBusbw}) {
    const World found = world(variables);
    CHECK(found.launcher == "busbw");
    CHECK(found.rank == 3);
    CHECK(found.size == 4);
    CHECK(found.local_rank == 1);
    CHECK(found.local_size == 2);
    CHECK(found.node == 1);
    CHECK(found.store == tcp({"::1"}, 5000));
    CHECK(found.token == "secret");
    CHECK(found.notes.empty());
  }
  const World minimal = world({{"BUSBW_RANK", "0"}, {"BUSBW_SIZE", "2"}, {"BUSBW_RENDEZVOUS", "file:///shared"}});
  CHECK(minimal.local_rank == 0);
  CHECK(minimal.local_size == 1);
  CHECK_FALSE(minimal.node);
  CHECK(minimal.notes.empty());  // the folder holds a token
  check_names(world_refusal(without(kBusbw, {"BUSBW_RENDEZVOUS"})), {"BUSBW_SIZE=4", "BUSBW_RENDEZVOUS"});
  check_names(world_refusal({{"BUSBW_RENDEZVOUS", "tcp://n1:80"}}),
              {"BUSBW_RENDEZVOUS=tcp://n1:80", "BUSBW_RANK and BUSBW_SIZE", "alone"});
  check_names(world_refusal(without(kBusbw, {"BUSBW_RANK"})), {"BUSBW_SIZE=4", "BUSBW_RANK is not set", "alone"});
  check_names(world_refusal(without(kBusbw, {"BUSBW_SIZE"})), {"BUSBW_RANK=3", "BUSBW_SIZE is not set", "alone"});
}

TEST_CASE("world: contradictory launchers are an error with their variables and a remedy") {
  const Variables other{{"RANK", "0"}, {"WORLD_SIZE", "16"}, {"MASTER_ADDR", "n1"}, {"MASTER_PORT", "29500"}};
  check_names(world_refusal(kSlurm + other, {{40, "slurmstepd"}}),
              {"SLURM_PROCID=3", "SLURM_STEP_NUM_TASKS=4", "Slurm", "RANK=0", "WORLD_SIZE=16", "torchrun", "contradict",
               "BUSBW_LAUNCHER=slurm or BUSBW_LAUNCHER=torchrun"});
  check_names(world_refusal(kOpenMpi5 + Variables{{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}}),
              {"Open MPI", "MPICH", "contradict"});
  check_names(world_refusal(kSlurm + Variables{{"BUSBW_SIZE", "8"}}),
              {"BUSBW_SIZE=8", "SLURM_STEP_NUM_TASKS=4", "contradict"});
  CHECK(world(kSlurm + Variables{{"BUSBW_SIZE", "4"}}).launcher == "slurm");
}

TEST_CASE("world: BUSBW_LAUNCHER selects the launcher") {
  const Variables both = kSlurm + kTorchrun;
  CHECK(world(both + Variables{{"BUSBW_LAUNCHER", "slurm"}}).rank == 3);
  CHECK(world(both + Variables{{"BUSBW_LAUNCHER", "torchrun"}}).rank == 5);
  CHECK(world(kOpenMpi5 + kBusbw + Variables{{"BUSBW_LAUNCHER", "openmpi"}}).rank == 1);
  CHECK(alone(world(both + Variables{{"BUSBW_LAUNCHER", "none"}})));
  CHECK(alone(world(kSlurmBatch + Variables{{"BUSBW_LAUNCHER", "none"}})));
  CHECK(alone(world(kBusbw + Variables{{"BUSBW_LAUNCHER", "none"}})));
  CHECK(world(kSlurm + Variables{{"RANK", "x"}, {"WORLD_SIZE", "y"}, {"BUSBW_LAUNCHER", "slurm"}}).size == 4);
  check_names(world_refusal({{"BUSBW_LAUNCHER", "pbs"}}),
              {"BUSBW_LAUNCHER=pbs", "slurm", "openmpi", "mpich", "torchrun", "kubernetes", "busbw", "none"});
  check_names(world_refusal({{"BUSBW_LAUNCHER", ""}}), {"BUSBW_LAUNCHER=:", "none"});
  check_names(world_refusal({{"BUSBW_LAUNCHER", "openmpi"}}),
              {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "mpirun"});
  check_names(world_refusal({{"BUSBW_LAUNCHER", "slurm"}}), {"SLURM_PROCID", "srun"});
}

TEST_CASE("world: torchrun's agents as tasks of Slurm") {
  const Variables two_agents = kSlurm +
                               Variables{{"SLURM_PROCID", "1"},
                                         {"SLURM_STEP_NUM_TASKS", "2"},
                                         {"SLURM_NTASKS", "2"},
                                         {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}} +
                               kTorchrun;
  const World found = world(two_agents, {{60, "python3"}, {50, "slurmstepd"}});
  CHECK(found.launcher == "torchrun");
  CHECK(found.rank == 5);
  REQUIRE(!found.notes.empty());
  check_names(found.notes[0], {"torchrun", "within Slurm"});
  // One worker for each agent: both launchers agree, and torchrun gives the address of process 0.
  const World one_each =
      world(two_agents + Variables{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}});
  CHECK(one_each.launcher == "torchrun");
  check_names(world_refusal(two_agents + Variables{{"GROUP_WORLD_SIZE", "4"}}), {"contradict"});
}

TEST_CASE("world: mpirun's daemons as tasks of Slurm, detected by the ancestors") {
  const Variables daemons =
      kSlurm + Variables{{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}};
  const Variables hydra = daemons + kMpich + Variables{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}};
  const World found = world(hydra, {{80, "bash"}, {71, "hydra_pmi_proxy"}, {70, "slurmstepd"}});
  CHECK(found.launcher == "mpich");
  CHECK(found.rank == 1);
  const World inner = world(hydra, {{90, "slurmstepd"}, {71, "hydra_pmi_proxy"}});
  CHECK(inner.launcher == "slurm");
  CHECK(inner.rank == 0);
  check_names(world_refusal(hydra, {{1, "bash"}}), {"SLURM_PROCID=0", "PMI_RANK=1", "contradict"});
  // If both agree, the inner launcher still counts, because they may differ on other nodes.
  CHECK(world(hydra + Variables{{"SLURM_PROCID", "1"}}, {{71, "hydra_pmi_proxy"}, {70, "slurmstepd"}}).launcher ==
        "mpich");
  const World open_mpi = world(daemons + kOpenMpi5, {{50, "prted"}, {40, "slurmstepd"}});
  CHECK(open_mpi.launcher == "openmpi");
  REQUIRE(!open_mpi.notes.empty());
  check_names(open_mpi.notes[0], {"Open MPI", "within Slurm"});
}

TEST_CASE("world: a launcher with one process does not contradict another one") {
  const Variables shell = kSlurm + Variables{{"SLURM_PROCID", "0"},
                                             {"SLURM_STEP_NUM_TASKS", "1"},
                                             {"SLURM_NTASKS", "1"},
                                             {"SLURM_STEP_TASKS_PER_NODE", "1"},
                                             {"SLURM_NODEID", "0"}};
  CHECK(world(shell + kOpenMpi5).launcher == "openmpi");
  CHECK(world(shell + kOpenMpi5).rank == 1);
}

TEST_CASE("world: sizes without ranks and ranks without sizes are errors") {
  check_names(
      world_refusal(without(kOpenMpi5, {"OMPI_COMM_WORLD_RANK", "PMIX_RANK"})),
      {"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK is not set", "run alone", "mpirun", "BUSBW_LAUNCHER=none"});
  check_names(world_refusal({{"PMIX_RANK", "0"}}), {"PMIX_RANK=0", "OMPI_COMM_WORLD_SIZE is not set", "run alone"});
  check_names(world_refusal(without(kMpich, {"PMI_RANK"})), {"PMI_SIZE=2", "PMI_RANK is not set"});
  // mpirun -pmi-port
  check_names(
      world_refusal({{"MPI_LOCALNRANKS", "2"}, {"MPI_LOCALRANKID", "1"}, {"PMI_PORT", "n1:38801"}, {"PMI_ID", "1"}}),
      {"PMI_ID=1", "PMI_SIZE is not set", "run alone", "busbw launch mpirun"});
  check_names(world_refusal({{"WORLD_SIZE", "8"}}), {"WORLD_SIZE=8", "RANK is not set", "torchrun"});
  CHECK(alone(world({{"WORLD_SIZE", "1"}})));
  // Variables exported by a script besides srun are not a launcher.
  CHECK(world(kSlurm + Variables{{"WORLD_SIZE", "16"}, {"MASTER_ADDR", "n1"}}).launcher == "slurm");
}

TEST_CASE("world: invalid values are errors") {
  const auto refused = [](const Variables& variables, const char* name, const std::string& value) {
    CAPTURE(name);
    CAPTURE(value);
    check_names(world_refusal(variables + Variables{{name, value}}), {std::string(name) + "=" + value, "allowed"});
  };
  for (const char* value : {"-1", "x", "1.5", "0x1", " 1", "1 ", "99999999999"}) {
    refused(kBusbw, "BUSBW_RANK", value);
    refused(kBusbw, "BUSBW_SIZE", value);
    refused(kBusbw, "BUSBW_LOCAL_RANK", value);
    refused(kBusbw, "BUSBW_LOCAL_SIZE", value);
    refused(kBusbw, "BUSBW_NODE", value);
    refused(kSlurm, "SLURM_PROCID", value);
    refused(kTorchrun, "WORLD_SIZE", value);
    refused(kOpenMpi5, "OMPI_COMM_WORLD_RANK", value);
    refused(kMpich, "PMI_SIZE", value);
    refused(kIndexedJob, "JOB_COMPLETION_INDEX", value);
  }
  for (const char* value : {"4", "5"}) refused(kBusbw, "BUSBW_RANK", value);
  refused(kBusbw, "BUSBW_SIZE", "0");
  refused(kBusbw, "BUSBW_LOCAL_SIZE", "0");
  refused(kBusbw, "BUSBW_LOCAL_RANK", "2");
  CHECK_THROWS_AS(world(kBusbw + Variables{{"BUSBW_LOCAL_SIZE", "5"}}), UsageError);
  for (const char* value : {"", "x", "tcp://n1:0", "tcp://n1:99999", "tcp://:80"})
    refused(kBusbw, "BUSBW_RENDEZVOUS", value);
  for (const char* value : {"", "0", "-1", "x", "inf", "nan"}) refused(kBusbw, "BUSBW_JOIN_TIMEOUT_S", value);
  CHECK(world(kBusbw + Variables{{"BUSBW_JOIN_TIMEOUT_S", "2.5"}}).join_limit_s == 2.5);
  CHECK(world(kIndexedJob + Variables{{"BUSBW_JOIN_TIMEOUT_S", "5"}}).join_limit_s == 5);
  check_names(world_refusal(kTorchrun + Variables{{"MASTER_ADDR", "a b"}}), {"MASTER_ADDR", "a b", "is not a host"});
  check_names(world_refusal(kTorchrun + Variables{{"MASTER_PORT", "0"}}), {"MASTER_PORT", "is not a port"});
  check_names(world_refusal(kSlurm + Variables{{"SLURM_STEP_NODELIST", "n[3-1]"}}), {"n[3-1]", "descending"});
}

TEST_CASE("world: the hosts are known only if the list is readable and each has equally many processes") {
  const auto hosts = [](const Variables& more) { return world(kBusbw + more).hosts; };
  CHECK(hosts({{"BUSBW_HOSTS", "n[1-2]"}}) == std::vector<std::string>{"n1", "n2"});
  CHECK(hosts({}).empty());
  for (const char* list : {"", "n[1", "n[3-1]", "[fe80::1],[fe80::2]"}) CHECK(hosts({{"BUSBW_HOSTS", list}}).empty());
  CHECK(hosts({{"BUSBW_HOSTS", "n1,n2,n3"}}).empty());
  CHECK(world(kSlurm).hosts.empty());  // 3 processes on n1, 1 on n2
}

TEST_CASE("world: a token from a file is never printed") {
  const TemporaryFile file("0123abc\n");
  const World found = world(kSlurm + Variables{{"BUSBW_TOKEN_FILE", file.path()}});
  CHECK(found.token == "0123abc");
  CHECK(found.notes.empty());
  CHECK_THROWS_AS(world(kSlurm + Variables{{"BUSBW_TOKEN_FILE", "/nowhere"}}), UsageError);
}

TEST_CASE("world: an empty variable counts as not set") {
  CHECK(alone(world({{"OMPI_COMM_WORLD_SIZE", ""}, {"PMI_RANK", ""}, {"SLURM_JOB_ID", ""}, {"WORLD_SIZE", ""}})));
}

TEST_CASE("find_join_limit_s: defaults and BUSBW_JOIN_TIMEOUT_S") {
  const auto limit = [](const Variables& variables) {
    made_up_environment() = variables;
    return find_join_limit_s(look_up);
  };
  CHECK(limit({}) == 60);
  CHECK(limit({{"JOB_COMPLETION_INDEX", "0"}}) == 600);
  CHECK(limit({{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}}) == 600);
  CHECK(limit({{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}, {"BUSBW_JOIN_TIMEOUT_S", "7"}}) == 7);
}
