#include "backends/nccl/nccl_backend.hpp"

#include <doctest/doctest.h>

#include "common/support/error.hpp"
#include "support_errors.hpp"

using namespace busbw;

TEST_CASE("survey_gpus: GPUs, or the reason for their absence with a remedy") {
  for (const bool forks_follow : {true, false}) {
    const GpuSurvey survey = survey_gpus(forks_follow);
    CHECK(survey.gpus.empty() != survey.no_gpu_reason.empty());
    if (survey.gpus.empty()) check_names(survey.no_gpu_reason, {"--backend host"});
  }
}

TEST_CASE("make_nccl_backend: without GPUs an EnvironmentError with the reason") {
  try {
    make_nccl_backend({}, {{}, "the driver sleeps"});
    FAIL("no error");
  } catch (const EnvironmentError& error) {
    check_names(error.what(), {"--backend nccl", "the driver sleeps"});
  }
}
