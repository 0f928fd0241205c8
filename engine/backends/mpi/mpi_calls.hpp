#pragma once
// MPI's header, and helpers that turn MPI's errors into exceptions.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <cstddef>

namespace busbw {

/// Throws EnvironmentError with MPI's error text if `code` is an error; `call` names the function.
void require_mpi(int code, const char* call);

/// Converts `count` to MPI's type. Throws UsageError above 2^31 - 1.
int mpi_count(std::size_t count);

}  // namespace busbw
