#pragma once
// What every use of MPI needs: its header, and its errors as ours.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <cstddef>

namespace busbw {

/// Throws EnvironmentError with MPI's words where `code` is an error; `call` names the function.
void require_mpi(int code, const char* call);

/// `count` as MPI takes it. Throws UsageError above 2^31 - 1.
int mpi_count(std::size_t count);

}  // namespace busbw
