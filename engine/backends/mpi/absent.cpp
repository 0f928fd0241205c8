// Replaces the MPI backend in the engine without MPI.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "backends/mpi/mpi_engine.hpp"
#include "common/os/program_file.hpp"
#include "common/support/error.hpp"

namespace busbw {
namespace {

constexpr const char* kEngine = "busbw-engine-mpi";

}  // namespace

World join_mpi(char** argv, Environment) {
  const std::filesystem::path self = program_path().value_or("");
  const std::string engine = self.parent_path() / kEngine;
  execv(engine.c_str(), argv);
  if (errno == ENOENT)
    throw EnvironmentError(fmt::format(
        "--backend mpi: there is no {}; install busbw where mpicxx of an MPI is found (cmake -DBUSBW_MPI=ON "
        "says what is missing)",
        engine));
  throw EnvironmentError(fmt::format("--backend mpi: cannot start {}: {}", engine, std::strerror(errno)));
}

std::unique_ptr<Backend> make_mpi_backend(const World&, const std::vector<std::string>&) {
  throw std::logic_error("make_mpi_backend: this engine knows no MPI");
}

}  // namespace busbw
