#pragma once
// How the ranks of a new communicator learn about each other: through that communicator itself.
#include <nccl.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fastpath/choice/method_selector.hpp"
#include "fastpath/communicator/clique_rank.hpp"
#include "fastpath/communicator/gather_buffer_pool.hpp"
#include "fastpath/nccl/real_nccl.hpp"
#include "fastpath/peers/scratch_budget.hpp"
#include "fastpath/verify/verifier.hpp"

namespace busbw::fastpath {

/// What became of one communicator: a clique, or why there is none.
struct SetupResult {
  std::shared_ptr<CliqueRank> clique;
  std::unique_ptr<Verifier> verifier;  // null where nothing is verified
  std::string why_not;
};

/// What a meeting takes from the process.
struct SetupContext {
  const RealNccl& nccl;
  /// Of GPUs of this generation and size.
  std::function<std::shared_ptr<const MethodSelector>(int capability_major, int multiprocessors)> choices;
  ScratchBudget& budget;
  ScratchPool& pool;
  GatherBufferPool& places;
  HiddenGpuLinks& hidden_gpus;
};

/// Collective over the ranks of each of these communicators, of which this thread has one rank each: it returns when
/// all their ranks have called. All ranks of a communicator get a clique or none does. Throws EnvironmentError where
/// this rank can't even say that it gets none; its peers then wait for it, as they do in NCCL where making a
/// communicator fails.
std::vector<SetupResult> set_up_cliques(const std::vector<ncclComm_t>& communicators, const SetupContext& company);

}  // namespace busbw::fastpath
