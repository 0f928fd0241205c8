# An MPI, for busbw-engine-mpi, the engine that measures MPI's own collectives (docs/mpi.md). `busbw_has_mpi` says whether
# there is one. -DMPI_HOME=<folder> or -DMPI_CXX_COMPILER=<its mpicxx> says which.
set(BUSBW_MPI AUTO CACHE STRING "Build busbw-engine-mpi: AUTO where an MPI is found, ON, OFF")
set_property(CACHE BUSBW_MPI PROPERTY STRINGS AUTO ON OFF)

set(busbw_has_mpi OFF)
if(BUSBW_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI QUIET COMPONENTS CXX)
  set(busbw_has_mpi ${MPI_CXX_FOUND})
  if(NOT busbw_has_mpi AND NOT BUSBW_MPI STREQUAL "AUTO")
    message(FATAL_ERROR "BUSBW_MPI=${BUSBW_MPI}, but no MPI was found: put its mpicxx into PATH, or say "
                        "-DMPI_CXX_COMPILER=<mpicxx>")
  endif()
endif()
if(busbw_has_mpi)
  message(STATUS "MPI: ${MPI_CXX_COMPILER}")
else()
  message(STATUS "MPI: none, so --backend mpi is left out")
endif()
