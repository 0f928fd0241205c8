#include "options/backend_checks.hpp"

#include <doctest/doctest.h>

#include "backends/host/host_traits.hpp"
#include "backends/nccl/nccl_backend.hpp"
#include "support_options.hpp"

using namespace busbw;

TEST_CASE("options: -V sets the CTAs of -D's kernel, default 16") {
  CHECK(options_of("-R 2 -D 1 -V 32").settings.device_cta_count == 32);
  CHECK(options_of("-R 2 -D 1").settings.device_cta_count == 16);
  CHECK_FALSE(options_of("-R 2").settings.device_cta_count);
}

TEST_CASE("options: -x 0 is NCCL's default by name, no -x is NCCL's choice") {
  CHECK(options_of("-x 0").settings.cta_policy == 0);
  CHECK_FALSE(options_of("").settings.cta_policy);
}

TEST_CASE("options: flags that require a GPU are errors on the host, with name and purpose") {
  for (const char* line :
       {"-G 1", "-R 1", "-R 2", "-x 0", "-x 1", "-y 1", "-D 1", "-V 16", "-M 1", "-g 2", "--library /lib/libnccl.so"}) {
    CAPTURE(line);
    const auto flag = words(line);
    check_names(backend_error(options_of(line), kHostTraits), {flag[0], flag[1], "host backend"});
  }
  for (const char* line : {"-G -1", "-R 3", "-x 3", "-x -1", "-y 2", "-D 5", "-V 129", "-V 0", "-V -1", "-M 2"}) {
    CAPTURE(line);
    check_names(refusal_of(line), {words(line)[0], "allowed"});
  }
  for (const char* line : {"-V 129", "-V 0", "-V -1"}) check_names(refusal_of(line), {"1 to 128"});
  check_names(backend_error(options_of("", {{"NCCL_TESTS_DEVICE", "0"}}), kHostTraits),
              {"NCCL_TESTS_DEVICE=0", "host backend"});
  check_names(refusal_of("", {{"NCCL_TESTS_DEVICE", "-1"}}), {"NCCL_TESTS_DEVICE=-1", "at least 0"});
  check_names(refusal_of("", {{"NCCL_TESTS_DEVICE", "\x1b[2J"}}), {"NCCL_TESTS_DEVICE=\\x1b[2J: allowed"});
  CHECK(backend_error(options_of("-t 2 -b 8 -e 1M"), kHostTraits).empty());
  // The first of several flags is named.
  check_names(backend_error(options_of("-R 1 -G 4"), kHostTraits), {"-G", "4"});
}

TEST_CASE("options: the NCCL backend supports GPU flags and faults") {
  for (const char* line : {"-G 4 -I 1", "--fault overrun:rank=0", "-t 2", "-g 2", "-y 1", "--library /lib/libnccl.so",
                           "-R 1", "-R 2", "-x 0", "-M 1", "-R 2 -D 1", "-R 2 -D 4 -V 128"})
    CHECK(backend_error(options_of(line), kNcclTraits).empty());
}

TEST_CASE("options: -H needs symmetric windows on GPUs, and nothing on the host") {
  for (const char* line : {"-H 1", "-H 1 -R 1"}) {
    check_names(backend_error(options_of(line, {}, "alltoall"), kNcclTraits),
                {"-H 1 (--host_rma_implementation)", "add -R 2"});
  }
  CHECK(backend_error(options_of("-H 1 -R 2", {}, "alltoall"), kNcclTraits).empty());
  CHECK(backend_error(options_of("-H 2 -R 2", {}, "alltoall"), kNcclTraits).empty());
  CHECK(backend_error(options_of("-H 1", {}, "alltoall"), kHostTraits).empty());
  check_names(backend_error(options_of("-H 2", {}, "alltoall"), kHostTraits), {"-H 2", "host backend", "use -H 1"});
}

TEST_CASE("options: the error for an unsupported kernel names what it supports") {
  const auto cannot = [](const std::string& line, const std::string& collective = "all_reduce") {
    return backend_error(options_of(line, {}, collective), kNcclTraits);
  };
  check_names(cannot("-V 32"), {"-V 32 (--device_cta_count)", "needs -D"});
  check_names(cannot("-R 2 -D 0 -V 16"), {"-V 16", "needs -D"});
  check_names(cannot("-D 2"), {"-D 2 (--device_implementation)", "symmetric windows", "-R 2"});
  check_names(cannot("-D 2 -R 1"), {"-D 2", "-R 2"});
  check_names(cannot("-D 1 -R 2", "all_gather"), {"-D 1", "all_gather_perf", "all_reduce_perf and alltoall_perf"});
  check_names(cannot("-D 1 -R 2 -o mulsum"), {"-D 1", "-o mulsum", "-d float", "allowed: -o sum, prod"});
  check_names(cannot("-D 1 -R 2 -o all"), {"-o mulsum"});
  check_names(cannot("-D 3 -R 2 -d half"), {"-D 3", "-d half", "-d float or double"});
  CHECK(cannot("-D 1 -R 2 -d all -o avg").empty());
  CHECK(cannot("-D 4 -R 2 -d double").empty());
  for (const char* line : {"-D 1 -R 2 -d all", "-D 4 -R 2 -o mulsum"}) CHECK(cannot(line, "alltoall").empty());
}
