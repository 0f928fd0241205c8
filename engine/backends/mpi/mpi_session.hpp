#pragma once
// Initializes and finalizes MPI in this process.
#include <string_view>

namespace busbw {

/// Position of this process in MPI's job.
struct MpiWorld {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // among the processes that share memory with it
  int local_size = 1;
};

/// Calls MPI_Init from the main thread; another thread may use MPI later. Throws EnvironmentError. If the call does not
/// return within `limit_s`, the process ends with a message and exit code 4, because a library call cannot be
/// interrupted.
MpiWorld init_mpi(double limit_s);

/// Calls MPI_Finalize from the main thread. It waits for all processes, so do not call it if one may be lost. If one is
/// lost nevertheless, the process ends as described for `init_mpi`.
void finalize_mpi();

}  // namespace busbw
