#pragma once
// MPI from its beginning to its end in this process.
#include <string_view>

namespace busbw {

/// Where MPI put this process.
struct MpiWorld {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // among those that share memory with it
  int local_size = 1;
};

/// MPI_Init, by the main thread; another one may call MPI later. Throws EnvironmentError. Where it does not return
/// within `limit_s`, the process ends with a sentence and exit code 4: nothing else ends a call into a library.
MpiWorld init_mpi(double limit_s);

/// MPI_Finalize, by the main thread. It waits for all processes, so it is not called where one may be lost; should one
/// be lost all the same, the process ends as above.
void finalize_mpi();

}  // namespace busbw
