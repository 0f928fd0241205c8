#include "backends/mpi/library_name.hpp"

#include <doctest/doctest.h>

using namespace busbw;

TEST_CASE("mpi_library_name: known libraries") {
  CHECK(mpi_library_name(
            "Open MPI v5.0.11, package: Open MPI builder@host Distribution, ident: 5.0.11, repo rev: v5.0.11") ==
        "Open MPI 5.0.11");
  CHECK(mpi_library_name("MPICH Version:      5.0.2\nMPICH Release date: Fri Sep 25 2026\n") == "MPICH 5.0.2");
  CHECK(mpi_library_name("MPICH Version:\t5.0.2\nMPICH ABI: 18:1:6") == "MPICH 5.0.2");
  CHECK(mpi_library_name("Intel(R) MPI Library 2021.9 for Linux* OS\n") == "Intel MPI 2021.9");
  CHECK(mpi_library_name("MVAPICH2 Version      :\t2.3.7\nMVAPICH2 Release date : x") == "MVAPICH2 2.3.7");
}

TEST_CASE("mpi_library_name: the first line for an unknown library") {
  CHECK(mpi_library_name("Some MPI 1.0 of today\nmore") == "Some MPI 1.0 of today");
  CHECK(mpi_library_name("MPICH Version:") == "MPICH Version:");
  CHECK(mpi_library_name("Open MPI v") == "Open MPI v");
  CHECK(mpi_library_name("") == "");
}
