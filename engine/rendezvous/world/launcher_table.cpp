// One entry for each launcher: its variables, its daemons, and how its processes find process 0.
#include "rendezvous/world/launcher_table.hpp"

#include "common/support/error.hpp"
#include "rendezvous/world/slurm_step.hpp"
#include "rendezvous/world/store_address.hpp"

namespace busbw {
namespace {

/// Returns MASTER_PORT. If torchrun's agent listens at this port with a store for its workers, returns the next port.
int torchrun_port(Environment environment) {
  const auto port_text = environment("MASTER_PORT");
  if (!port_text)
    throw UsageError(
        "MASTER_PORT is not set, but RANK, WORLD_SIZE and MASTER_ADDR are; set it, or "
        "BUSBW_RENDEZVOUS=tcp://HOST:PORT");
  const bool agent_listens = environment("TORCHELASTIC_USE_AGENT_STORE") == "True";
  const int port = parse_port(*port_text, "MASTER_PORT");
  if (!agent_listens) return port;
  return parse_port(std::to_string(port + 1), "MASTER_PORT, plus 1 because torchrun listens there");
}

std::optional<LauncherStore> pmix_store(Environment environment) {
  const bool is_client = environment("PMIX_RANK") && environment("PMIX_NAMESPACE");
  return is_client ? std::optional(LauncherStore::pmix) : std::nullopt;
}

std::optional<LauncherStore> hydra_store(Environment environment) {
  return environment("PMI_FD") ? std::optional(LauncherStore::pmi1) : std::nullopt;
}

}  // namespace

const std::vector<LauncherEntry>& launcher_table() {
  static const std::vector<LauncherEntry> launchers{
      {.name = "busbw",
       .title = "busbw launch",
       .start_remedy = "set BUSBW_RANK, BUSBW_SIZE and BUSBW_RENDEZVOUS for each process, or use busbw launch",
       .required_any = {"BUSBW_RANK", "BUSBW_SIZE"},
       .rank = {"BUSBW_RANK"},
       .size = {"BUSBW_SIZE"},
       .local_rank = {"BUSBW_LOCAL_RANK"},
       .local_size = {"BUSBW_LOCAL_SIZE"},
       .node = {"BUSBW_NODE"},
       .host_list = {"BUSBW_HOSTS"}},
      {.name = "kubernetes",
       .title = "Kubernetes",
       .start_remedy =
           "set BUSBW_SIZE to the Job's completions and BUSBW_RENDEZVOUS=tcp://<job>-0.<service>:PORT in its "
           "pods, or use busbw launch kubernetes",
       .required_any = {"JOB_COMPLETION_INDEX"},
       .rank = {"JOB_COMPLETION_INDEX"},
       .size = {"BUSBW_SIZE"},
       .local_rank = {"BUSBW_LOCAL_RANK"},
       .local_size = {"BUSBW_LOCAL_SIZE"},
       .node = {"BUSBW_NODE"}},
      {.name = "slurm",
       .title = "Slurm",
       .start_remedy = "type srun before the program",
       .required_any = {"SLURM_JOB_ID", "SLURM_JOBID"},
       .rank = {"SLURM_PROCID"},
       .size = {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"},
       .local_rank = {"SLURM_LOCALID"},
       .node = {"SLURM_NODEID"},
       .host_list = {"SLURM_STEP_NODELIST"},
       .identity = {"SLURM_CLUSTER_NAME", "SLURM_JOB_ID", "SLURM_STEP_ID"},
       .daemons = {"slurmstepd"},
       .has_started_process = is_slurm_task,
       .local_size_from = slurm_local_size,
       .hosts_from = slurm_first_host_candidates,
       .port_from = slurm_port},
      {.name = "torchrun",
       .title = "torchrun",
       .start_remedy =
           "start it with torchrun --no-python, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT for each process",
       .required_any = {"WORLD_SIZE", "MASTER_ADDR", "TORCHELASTIC_RUN_ID"},
       .rank = {"RANK"},
       .size = {"WORLD_SIZE"},
       .local_rank = {"LOCAL_RANK"},
       .local_size = {"LOCAL_WORLD_SIZE"},
       .node = {"GROUP_RANK"},
       .host = {"MASTER_ADDR"},
       .identity = {"TORCHELASTIC_RUN_ID"},
       .port_from = torchrun_port,
       .agent_count = "GROUP_WORLD_SIZE"},
      {.name = "openmpi",
       .title = "Open MPI",
       .start_remedy =
           "start it with busbw launch mpirun, or with mpirun -x BUSBW_RENDEZVOUS=tcp://HOST:PORT, HOST being the "
           "first host",
       .required_any = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK"},
       .rank = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK"},
       .size = {"OMPI_COMM_WORLD_SIZE"},
       .local_rank = {"OMPI_COMM_WORLD_LOCAL_RANK"},
       .local_size = {"OMPI_COMM_WORLD_LOCAL_SIZE"},
       .identity = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"},
       .daemons = {"prted", "orted", "prterun", "orterun", "mpirun", "mpiexec"},
       .store_from = pmix_store},
      {.name = "mpich",
       .title = "MPICH",
       .start_remedy =
           "start it with busbw launch mpirun, or with mpirun -genv BUSBW_RENDEZVOUS tcp://HOST:PORT, HOST being the "
           "first host",
       // With -pmi-port, Hydra sets PMI_ID, but no size. A process would have to ask for it over a TCP connection.
       .required_any = {"PMI_RANK", "PMI_SIZE", "PMI_ID"},
       .rank = {"PMI_RANK", "PMI_ID"},
       .size = {"PMI_SIZE"},
       .local_rank = {"MPI_LOCALRANKID"},
       .local_size = {"MPI_LOCALNRANKS"},
       .daemons = {"hydra_pmi_proxy", "pmi_proxy"},
       .store_from = hydra_store},
  };
  return launchers;
}

}  // namespace busbw
