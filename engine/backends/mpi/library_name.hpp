#pragma once
// An MPI library's name and version from what it says of itself.
#include <string>
#include <string_view>

namespace busbw {

/// "Open MPI 5.0.11", "MPICH 5.0.2", "Intel MPI 2021.9" from MPI_Get_library_version's text; of a library that writes
/// it in another way its first line.
std::string mpi_library_name(std::string_view text);

}  // namespace busbw
