#include "fastpath/communicator/communicator_registry.hpp"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "common/support/stderr_message.hpp"
#include "fastpath/choice/method_log.hpp"
#include "fastpath/choice/settings.hpp"
#include "fastpath/communicator/clique_setup.hpp"
#include "fastpath/communicator/pointer_cache.hpp"

namespace busbw::fastpath {
namespace {

constexpr const char* kWho = "libbusbw_nccl.so";

}  // namespace

FastCommunicator::~FastCommunicator() {
  clique.reset();  // which waits for what was queued
  if (verifier) verifier->wait();
  report_findings();
}

ncclResult_t FastCommunicator::finish() noexcept {
  const bool was_aborted = clique->is_aborted();
  cudaError_t error = clique->wait();
  if (verifier && error == cudaSuccess && !clique->is_aborted()) error = verifier->wait();
  report_findings();
  if (error != cudaSuccess) {
    print_stderr(kWho, fmt::format("rank {}: waiting for what was queued: {}", clique->rank(), cudaGetErrorString(error)));
    return ncclUnhandledCudaError;
  }
  // Who aborts it meanwhile ends it: NCCL's communicator may be gone.
  return clique->is_aborted() && !was_aborted ? ncclInternalError : ncclSuccess;
}

void FastCommunicator::report_findings() {
  if (!verifier) return;
  if (const std::string news = verifier->take_findings_message(); !news.empty()) print_stderr(kWho, news);
}

CommunicatorRegistry::CommunicatorRegistry() : budget_(settings().scratch_bytes) {}

CommunicatorRegistry& CommunicatorRegistry::instance() {
  static auto* process = new CommunicatorRegistry;  // never destroyed: other threads may still call while the process ends
  return *process;
}

FastCommunicator* CommunicatorRegistry::find(ncclComm_t communicator) noexcept {
  struct Seen {
    std::uint64_t changes = 0;
    PointerCache<FastCommunicator*> fast;
  };
  static thread_local Seen seen;
  const std::uint64_t changes = changes_.load(std::memory_order_acquire);
  if (changes == 0 || communicator == nullptr) return nullptr;  // 0: there has been none yet
  if (seen.changes != changes) {
    seen.fast.clear();
    seen.changes = changes;
  }
  if (FastCommunicator* const* known = seen.fast.find(communicator)) return *known;
  const std::lock_guard lock(mutex_);
  const auto found = fast_.find(communicator);
  FastCommunicator* const fast = found == fast_.end() ? nullptr : found->second.get();
  seen.fast.insert(communicator, fast);
  return fast;
}

std::shared_ptr<const MethodSelector> CommunicatorRegistry::choices(int capability_major, int multiprocessors) {
  const std::lock_guard lock(mutex_);
  auto& choices = choices_[{capability_major, multiprocessors}];
  if (choices) return choices;
  Table table;
  try {
    table = settings().table.empty()
                ? Table::parse(default_table_text(capability_major, settings().nvls_is_off), "the library's own table")
                : Table::read(settings().table);
  } catch (const std::exception& error) {
    print_stderr(kWho, fmt::format("{}; without a table all is handed over to NCCL", error.what()));
  }
  choices = std::make_shared<const MethodSelector>(settings(), std::move(table), max_blocks_on(multiprocessors));
  return choices;
}

ncclResult_t CommunicatorRegistry::joined(const std::vector<ncclComm_t>& communicators, const RealNccl& nccl) noexcept try {
  // One that was ended past this library may have had the same handle.
  for (const ncclComm_t communicator : communicators) leave(communicator);
  const auto choices_of = [this](int major, int multiprocessors) { return choices(major, multiprocessors); };
  const SetupContext company{nccl, choices_of, budget_, pool_, places_, hidden_gpus_};
  auto results = set_up_cliques(communicators, company);
  const std::lock_guard lock(mutex_);
  joined_.insert(communicators.begin(), communicators.end());
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].clique) {
      log().log_message(
          fmt::format("communicator {}: all is handed over, since {}", fmt::ptr(communicators[i]), results[i].why_not));
      continue;
    }
    auto fast = std::make_shared<FastCommunicator>();
    fast->clique = std::move(results[i].clique);
    fast->verifier = std::move(results[i].verifier);
    const CliqueRank& clique = *fast->clique;
    log().log_message(fmt::format("communicator {}: rank {} of {} on GPU {} is fast, with {} MiB of scratch memory",
                          fmt::ptr(communicators[i]), clique.rank(), clique.ranks(), clique.device(),
                          clique.bytes() >> 20));
    fast_[communicators[i]] = std::move(fast);
    changes_.fetch_add(1, std::memory_order_acq_rel);
  }
  return ncclSuccess;
} catch (const std::exception& error) {
  print_stderr(kWho, fmt::format("{}; set BUSBW_FASTPATH=off to do without", error.what()));
  return ncclSystemError;
}

bool CommunicatorRegistry::has_joined(ncclComm_t communicator) {
  const std::lock_guard lock(mutex_);
  return joined_.contains(communicator);
}

std::shared_ptr<FastCommunicator> CommunicatorRegistry::leave(ncclComm_t communicator) noexcept {
  const std::lock_guard lock(mutex_);
  joined_.erase(communicator);
  const auto found = fast_.find(communicator);
  if (found == fast_.end()) return nullptr;
  std::shared_ptr<FastCommunicator> fast = std::move(found->second);
  fast_.erase(found);
  changes_.fetch_add(1, std::memory_order_acq_rel);
  // An aborted one's memory stays allocated (scratch.hpp), and is not for others.
  if (fast->clique->is_aborted()) aborted_.push_back(fast);
  return fast;
}

}  // namespace busbw::fastpath
