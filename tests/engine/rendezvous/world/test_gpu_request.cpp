#include "rendezvous/world/gpu_request.hpp"

#include <doctest/doctest.h>

#include "support_environment.hpp"

using namespace busbw;

namespace {

std::optional<std::string> request(const Variables& variables) {
  made_up_environment() = variables;
  return gpu_request(look_up);
}

}  // namespace

TEST_CASE("gpu_request: names the variable of Slurm or of busbw launch") {
  CHECK(request({{"BUSBW_REQUESTED_GPUS", "8"}}) == "BUSBW_REQUESTED_GPUS=8");
  CHECK(request({{"SLURM_GPUS_ON_NODE", "8"}}) == "SLURM_GPUS_ON_NODE=8");
  CHECK(request({{"SLURM_GPUS_PER_NODE", "h100:8"}}) == "SLURM_GPUS_PER_NODE=h100:8");
  CHECK(request({{"SLURM_GPUS_PER_TASK", "1"}}) == "SLURM_GPUS_PER_TASK=1");
  CHECK(request({{"SLURM_GPUS", "99999999999999999999"}}) == "SLURM_GPUS=99999999999999999999");
  CHECK(request({{"SLURM_GPUS", "h100:4,a100:0"}}) == "SLURM_GPUS=h100:4,a100:0");
  CHECK(request({{"SLURM_GPUS", "10"}}) == "SLURM_GPUS=10");
}

TEST_CASE("gpu_request: nothing without GPUs, and the most specific variable decides") {
  CHECK_FALSE(request({}));
  CHECK_FALSE(request({{"SLURM_GPUS_ON_NODE", ""}}));
  CHECK_FALSE(request({{"SLURM_GPUS_PER_NODE", "h100:0"}}));
  CHECK_FALSE(request({{"SLURM_GPUS", "garbage"}}));
  CHECK_FALSE(request({{"SLURM_GPUS_ON_NODE", "0"}, {"SLURM_GPUS_PER_NODE", "8"}}));
  CHECK_FALSE(request({{"BUSBW_REQUESTED_GPUS", "0"}, {"SLURM_GPUS_ON_NODE", "8"}}));
  CHECK(request({{"SLURM_GPUS_ON_NODE", ""}, {"SLURM_GPUS_PER_NODE", "2"}}) == "SLURM_GPUS_PER_NODE=2");
}
