#pragma once
// MPI as main sees it. There are two engines: busbw-engine knows no MPI and starts busbw-engine-mpi beside it, which is
// the same program with this backend inside, so that only who asks for MPI needs its library.
#include <memory>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "common/os/environment.hpp"
#include "rendezvous/world/world.hpp"

namespace busbw {

/// Joins MPI's job: which process this one is, and where process 0 listens, as all processes hear from it over MPI. To
/// be called once, by the main thread. Where this is the engine without MPI, starts the other one with the arguments
/// `argv` and does not return. Throws EnvironmentError where that one is not installed or MPI fails, and UsageError
/// where a launcher speaks of several processes but MPI knows only this one.
World join_mpi(char** argv, Environment environment);

/// After `join_mpi`, whose answer `world` is: a backend that measures MPI's own collectives on host memory, one rank in
/// each process. `faults`: --fault. Throws UsageError on a fault of a rank that does not exist.
std::unique_ptr<Backend> make_mpi_backend(const World& world, const std::vector<std::string>& faults);

}  // namespace busbw
