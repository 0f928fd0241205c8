#pragma once
// MPI support of the engine's main program. There are two engines: busbw-engine does not link MPI and starts
// busbw-engine-mpi from the same folder. That is the same program with this backend, so that only users of MPI need its
// library.
#include <memory>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "common/os/environment.hpp"
#include "rendezvous/world/world.hpp"

namespace busbw {

/// Joins MPI's job: returns this process's rank and the address of process 0, which MPI broadcasts to all processes.
/// The main thread must call it once. The engine without MPI starts the other one with the arguments `argv` and does
/// not return. Throws EnvironmentError if the other engine is not installed or MPI fails. Throws UsageError if a
/// launcher reports several processes but MPI only this one.
World join_mpi(char** argv, Environment environment);

/// Creates a backend that measures MPI's own collectives on host memory, with one rank per process. Call it after
/// `join_mpi`, which returns `world`. `faults`: --fault. Throws UsageError if a fault names a rank that does not exist.
std::unique_ptr<Backend> make_mpi_backend(const World& world, const std::vector<std::string>& faults);

}  // namespace busbw
