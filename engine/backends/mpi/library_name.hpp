#pragma once
// Name and version of an MPI library, from its own description.
#include <string>
#include <string_view>

namespace busbw {

/// "Open MPI 5.0.11", "MPICH 5.0.2", "Intel MPI 2021.9" from MPI_Get_library_version's text; for other
/// libraries the first line of the text.
std::string mpi_library_name(std::string_view text);

}  // namespace busbw
