#pragma once
// Sets up the fast path of new communicators: their cliques. A clique is the ranks of a communicator with GPUs that
// write into each other's memory. The ranks gather each other's capabilities in three rounds, each an all-gather of the
// communicator itself:
//
//   1. Each rank publishes its host, GPU, settings and remaining scratch memory. All ranks decide from these data.
//   2. Each rank allocates scratch memory of the common size and publishes its address.
//   3. Each rank opens the scratch memory of all peers and publishes whether that worked.
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

/// Result for one communicator: a clique, or a refusal. The refusal is the reason why the communicator has no fast
/// path.
struct SetupResult {
  std::shared_ptr<CliqueRank> clique;  // null if the setup was refused
  std::unique_ptr<Verifier> verifier;  // null if nothing is verified
  std::string refusal;                 // empty if there is a clique
};

/// Objects of the process that a setup uses.
struct SetupContext {
  const RealNccl& nccl;
  /// Returns the selector for GPUs of this major compute capability and number of multiprocessors.
  std::function<std::shared_ptr<const MethodSelector>(int capability_major, int multiprocessors)> selector_for;
  ScratchBudget& budget;
  ScratchPool& pool;
  GatherBufferPool& gather_buffers;
  const Nvml& nvml;
};

/// Sets up the cliques of communicators. This thread has one rank of each communicator. The results are in the order of
/// `communicators`. Collective: returns when all ranks of these communicators have called it. Either all ranks of a
/// communicator get a clique or none does. Throws EnvironmentError if this rank cannot report its refusal. Its peers
/// then hang, as in NCCL if creating a communicator fails on one rank.
std::vector<SetupResult> set_up_cliques(const std::vector<ncclComm_t>& communicators, const SetupContext& context);

}  // namespace busbw::fastpath
