// Looks up communicators with a cache per thread, and connects new communicators with their cliques and verifiers.
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

constexpr const char* kLibraryName = "libbusbw_nccl.so";

}  // namespace

FastCommunicator::~FastCommunicator() {
  clique.reset();  // waits for the queued operations
  if (verifier) verifier->wait();
  report_mismatches();
}

ncclResult_t FastCommunicator::finish() noexcept {
  const bool was_aborted = clique->is_aborted();
  cudaError_t error = clique->wait();
  if (verifier && error == cudaSuccess && !clique->is_aborted()) error = verifier->wait();
  report_mismatches();
  if (error != cudaSuccess) {
    print_stderr(kLibraryName,
                 fmt::format("rank {}: waiting for queued operations: {}", clique->rank(), cudaGetErrorString(error)));
    return ncclUnhandledCudaError;
  }
  // Another thread has aborted the communicator, so NCCL's communicator may already be destroyed.
  const bool was_aborted_meanwhile = clique->is_aborted() && !was_aborted;
  return was_aborted_meanwhile ? ncclInternalError : ncclSuccess;
}

void FastCommunicator::report_mismatches() {
  if (!verifier) return;
  if (const std::string message = verifier->take_mismatch_message(); !message.empty())
    print_stderr(kLibraryName, message);
}

CommunicatorRegistry::CommunicatorRegistry() : budget_(settings().scratch_bytes) {}

CommunicatorRegistry& CommunicatorRegistry::instance() {
  // Never destroyed, because other threads may still call NCCL while the process exits.
  static auto* registry = new CommunicatorRegistry;
  return *registry;
}

FastCommunicator* CommunicatorRegistry::find(ncclComm_t communicator) noexcept {
  // Entries are valid while the registry's change count equals the cache's. A null entry means "no fast path".
  struct LookupCache {
    std::uint64_t change_count = 0;
    PointerCache<FastCommunicator*> entries;
  };
  static thread_local LookupCache cache;
  const std::uint64_t change_count = change_count_.load(std::memory_order_acquire);
  if (change_count == 0 || communicator == nullptr) return nullptr;  // 0: no communicator has had a fast path yet
  if (cache.change_count != change_count) {
    cache.entries.clear();
    cache.change_count = change_count;
  }
  if (FastCommunicator* const* entry = cache.entries.find(communicator)) return *entry;
  const std::lock_guard lock(mutex_);
  const auto registered = fast_communicators_.find(communicator);
  FastCommunicator* const fast = registered == fast_communicators_.end() ? nullptr : registered->second.get();
  cache.entries.insert(communicator, fast);
  return fast;
}

std::shared_ptr<const MethodSelector> CommunicatorRegistry::selector_for_gpu(int capability_major,
                                                                             int multiprocessors) {
  const std::lock_guard lock(mutex_);
  auto& selector = selectors_[{capability_major, multiprocessors}];
  if (selector) return selector;
  Table table;
  try {
    table = settings().table.empty()
                ? Table::parse(default_table_text(capability_major, settings().nvls_is_off), "the default table")
                : Table::read(settings().table);
  } catch (const std::exception& error) {
    print_stderr(kLibraryName, fmt::format("{}; until then every call is delegated to NCCL", error.what()));
  }
  selector = std::make_shared<const MethodSelector>(settings(), std::move(table), max_blocks_on(multiprocessors));
  return selector;
}

ncclResult_t CommunicatorRegistry::add(const std::vector<ncclComm_t>& communicators, const RealNccl& nccl) noexcept
    try {
  // Removes old entries: a communicator that was destroyed without calling this library may have had the same handle.
  for (const ncclComm_t communicator : communicators) remove(communicator);
  const auto selector_for = [this](int major, int multiprocessors) { return selector_for_gpu(major, multiprocessors); };
  const SetupContext context{nccl, selector_for, budget_, pool_, gather_buffers_, nvml_};
  auto results = set_up_cliques(communicators, context);
  const std::lock_guard lock(mutex_);
  added_.insert(communicators.begin(), communicators.end());
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].clique) {
      log().log_message(fmt::format("communicator {}: every call is delegated to NCCL: {}", fmt::ptr(communicators[i]),
                                    results[i].refusal));
      continue;
    }
    auto fast = std::make_shared<FastCommunicator>();
    fast->clique = std::move(results[i].clique);
    fast->verifier = std::move(results[i].verifier);
    const CliqueRank& clique = *fast->clique;
    log().log_message(fmt::format("communicator {}: rank {} of {} on GPU {} is fast, with {} MiB of scratch memory",
                                  fmt::ptr(communicators[i]), clique.rank(), clique.ranks(), clique.device(),
                                  clique.bytes() >> 20));
    fast_communicators_[communicators[i]] = std::move(fast);
    change_count_.fetch_add(1, std::memory_order_acq_rel);
  }
  return ncclSuccess;
} catch (const std::exception& error) {
  print_stderr(kLibraryName, fmt::format("{}; set BUSBW_FASTPATH=off to use NCCL alone", error.what()));
  return ncclSystemError;
}

bool CommunicatorRegistry::was_added(ncclComm_t communicator) {
  const std::lock_guard lock(mutex_);
  return added_.contains(communicator);
}

std::shared_ptr<FastCommunicator> CommunicatorRegistry::remove(ncclComm_t communicator) noexcept {
  const std::lock_guard lock(mutex_);
  added_.erase(communicator);
  const auto registered = fast_communicators_.find(communicator);
  if (registered == fast_communicators_.end()) return nullptr;
  std::shared_ptr<FastCommunicator> fast = std::move(registered->second);
  fast_communicators_.erase(registered);
  change_count_.fetch_add(1, std::memory_order_acq_rel);
  // The memory of an aborted communicator stays allocated and is not reused (scratch.hpp).
  if (fast->clique->is_aborted()) aborted_.push_back(fast);
  return fast;
}

}  // namespace busbw::fastpath
