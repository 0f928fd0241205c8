#pragma once
// A text that process 0 shares with all processes of a job through the key-value store of their launcher. The text is
// the address of process 0 in hexadecimal digits, so `mpirun -H a,b all_reduce_perf` works although no variable names
// this address.
#include <functional>
#include <string>

#include "rendezvous/world/store_address.hpp"

namespace busbw {

/// Limits a wait for the launcher and for the other processes.
struct StoreWait {
  int limit_ticks = 0;            // ticks of ticker.hpp
  std::function<void()> on_tick;  // called at least ten times a second; an exception ends the wait
};

/// Returns the `text` of process 0 in every process. Every process of the job must call this function once, and the
/// calls return when all processes have called it. `text` is one word of letters and digits, because a blank
/// ends a value of PMI-1; only that of process 0 is used. Throws EnvironmentError if the store is not available, and
/// Error with ExitCode::rank_lost after the limit.
std::string share_text(LauncherStore store, int process, const std::string& text, const StoreWait& wait);

/// Like share_text, through PMIx, the interface of Open MPI and PRRTE. The library is the one that the launcher's
/// daemon has loaded, or the system's. BUSBW_PMIX names another one. Slurm has PMIx too, but a job of Slurm finds
/// process 0 by Slurm's variables.
std::string share_text_by_pmix(int process, const std::string& text, const StoreWait& wait);

/// Like share_text, through PMI-1, the line protocol of Hydra (MPICH, Intel MPI). Uses the socket PMI_FD, which
/// connects the process to the launcher's daemon on its node.
std::string share_text_by_pmi1(int process, const std::string& text, const StoreWait& wait);
/// Like share_text_by_pmi1, over the socket `descriptor`, which stays open. For tests.
std::string share_text_over(int descriptor, int process, const std::string& text, const StoreWait& wait);

}  // namespace busbw
