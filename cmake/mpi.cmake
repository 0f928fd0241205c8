# Finds an MPI for busbw-engine-mpi, the engine that measures MPI's own collectives (docs/mpi.md). Sets `busbw_has_mpi`.
# -DMPI_HOME=<folder> or -DMPI_CXX_COMPILER=<its mpicxx> selects the MPI.
set(BUSBW_MPI AUTO CACHE STRING "Build busbw-engine-mpi: AUTO (if an MPI is found), ON or OFF")
set_property(CACHE BUSBW_MPI PROPERTY STRINGS AUTO ON OFF)

set(busbw_has_mpi OFF)
if(BUSBW_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI QUIET COMPONENTS CXX)
  set(busbw_has_mpi ${MPI_CXX_FOUND})
  if(NOT busbw_has_mpi AND NOT BUSBW_MPI STREQUAL "AUTO")
    message(FATAL_ERROR "BUSBW_MPI=${BUSBW_MPI}, but no MPI was found: put its mpicxx into PATH, or set "
                        "-DMPI_CXX_COMPILER=<mpicxx>")
  endif()
endif()
if(busbw_has_mpi)
  message(STATUS "MPI: ${MPI_CXX_COMPILER}")
else()
  message(STATUS "MPI: none, so --backend mpi is not built")
endif()

# Adds another engine for the MPI of one compiler: <build>/mpi/<folder of the MPI>/busbw-engine-mpi.
function(busbw_add_mpi_engine compiler)
  string(REGEX REPLACE "^.*/([^/]+)/bin/[^/]+$" "\\1" family "${compiler}")
  execute_process(COMMAND ${compiler} -show OUTPUT_VARIABLE command OUTPUT_STRIP_TRAILING_WHITESPACE
                          COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(words UNIX_COMMAND "${command}")
  list(POP_FRONT words)  # the compiler that the MPI was built with
  set(target mpi-engine-${family})
  add_executable(${target} $<TARGET_OBJECTS:busbw_main> ${mpi_sources})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME busbw-engine-mpi
                                             RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/mpi/${family})
  target_compile_options(${target} PRIVATE ${words} -O1)
  target_link_libraries(${target} PRIVATE busbw_engine ${words} ${CMAKE_DL_LIBS})
endfunction()
