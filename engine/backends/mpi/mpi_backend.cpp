#include "backends/mpi/mpi_backend.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <stdexcept>
#include <utility>

#include "backends/host/host_hardware.hpp"
#include "backends/host/team_gather.hpp"
#include "backends/mpi/library_name.hpp"
#include "backends/mpi/mpi_communicator.hpp"
#include "backends/mpi/mpi_session.hpp"
#include "common/support/error.hpp"

namespace busbw {
namespace {

std::string library_text() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING + 1> text{};
  int length = 0;
  require_mpi(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  return text.data();  // Open MPI's length includes the final zero
}

/// File of the MPI library in use. Empty if the loader does not report it.
std::string library_path() {
  Dl_info found{};
  if (dladdr(reinterpret_cast<const void*>(&MPI_Allreduce), &found) == 0 || !found.dli_fname) return {};
  return found.dli_fname;
}

}  // namespace

MpiBackend::MpiBackend(int local_rank, Faults faults)
    : local_rank_(local_rank), faults_(std::move(faults)), library_(library_text()), cpu_name_(busbw::cpu_name()) {}

MpiBackend::~MpiBackend() {
  if (completed_) finalize_mpi();
}

std::string MpiBackend::version() const { return mpi_library_name(library_); }

Device MpiBackend::device(int) const { return {local_rank_, "cpu", cpu_name_}; }

std::size_t MpiBackend::available_bytes(int) const { return available_memory_bytes() / 2; }

std::vector<std::pair<std::string, std::string>> MpiBackend::facts() const {
  int major = 0;
  int minor = 0;
  require_mpi(MPI_Get_version(&major, &minor), "MPI_Get_version");
  std::vector<std::pair<std::string, std::string>> all{{"mpi_library", library_.substr(0, library_.find('\n'))},
                                                       {"mpi_standard", fmt::format("{}.{}", major, minor)}};
  if (!operators_.replaced().empty()) all.emplace_back("mpi_operators_replaced", operators_.replaced());
  if (const std::string path = library_path(); !path.empty()) all.emplace_back("mpi_path", path);
  return all;
}

void MpiBackend::reserve(int ranks, std::size_t buffer_bytes) {
  if (memory_) throw std::logic_error("MpiBackend::reserve: called twice");
  if (ranks != 1) throw std::logic_error("MpiBackend::reserve: a process has one rank");
  buffer_bytes_ = buffer_bytes;
  memory_.emplace(ranks, buffer_bytes, RankBuffers::page_aligned(buffer_bytes), Sharing::threads);
}

std::unique_ptr<Communicator> MpiBackend::connect(Team& world, Team& group) {
  if (!memory_) throw std::logic_error("MpiBackend::connect: nothing was reserved");
  std::vector<int> members = world_ranks_of(world, group);
  MPI_Comm communicator = MPI_COMM_NULL;
  require_mpi(MPI_Comm_split(MPI_COMM_WORLD, members.front(), group.rank(), &communicator), "MPI_Comm_split");
  require_mpi(MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  const MpiMemory memory{memory_->send_buffer(0), memory_->recv_buffer(0), std::span(memory_->front(), buffer_bytes_)};
  return std::make_unique<MpiCommunicator>(communicator, std::move(members), world, operators_, memory, faults_,
                                           completed_);
}

}  // namespace busbw
