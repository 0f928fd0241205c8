#include "backends/nccl/launch_group.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <stdexcept>

#include "rendezvous/team/wait.hpp"

namespace busbw {
namespace {

// Maximum number of requests that a rank may be ahead of the first member.
constexpr std::size_t kQueueSlots = 256;
// Requests between two notices to a member that is ahead. It waits until half of its slots are free.
constexpr std::size_t kRequestsPerNotice = 64;
static_assert(kRequestsPerNotice <= kQueueSlots / 2);
// Polls between two yields of the core, a few microseconds. More frequent yields would cost the issuing thread, which
// may share a core with this one, more than polling does.
constexpr unsigned kPollsPerYield = 64;
constexpr std::size_t kLineBytes = 64;  // of a cache line

/// Returns when `ready()` is true. Calls `check`, which may throw, from time to time.
template <class Ready, class Check>
void spin_until(const Ready& ready, const Check& check) {
  for (unsigned poll = 1; !ready(); ++poll) {
    if (poll % kPollsPerYield == 0) {
      check();
      sched_yield();
    } else {
      pause_briefly();
    }
  }
}

void throw_if_aborted(const Team& world) {
  if (world.aborted()) throw JobAborted();
}

bool starts_in_nccl_group(IssueRequest::Kind kind) { return kind <= IssueRequest::Kind::exchange; }

}  // namespace

const char* name(IssueRequest::Kind kind) {
  switch (kind) {
    case IssueRequest::Kind::all_reduce: return "all_reduce";
    case IssueRequest::Kind::reduce: return "reduce";
    case IssueRequest::Kind::reduce_scatter: return "reduce_scatter";
    case IssueRequest::Kind::all_gather: return "all_gather";
    case IssueRequest::Kind::broadcast: return "broadcast";
    case IssueRequest::Kind::gather: return "gather";
    case IssueRequest::Kind::scatter: return "scatter";
    case IssueRequest::Kind::alltoall: return "alltoall";
    case IssueRequest::Kind::exchange: return "exchange";
    case IssueRequest::Kind::copy: return "copy";
    case IssueRequest::Kind::begin_group: return "begin_group";
    case IssueRequest::Kind::end_group: return "end_group";
    case IssueRequest::Kind::stamp: return "stamp";
    case IssueRequest::Kind::begin_capture: return "begin_capture";
    case IssueRequest::Kind::end_capture: return "end_capture";
    case IssueRequest::Kind::instantiate_graph: return "instantiate_graph";
    case IssueRequest::Kind::issue_graph: return "issue_graph";
    case IssueRequest::Kind::close_gate: return "close_gate";
    case IssueRequest::Kind::synchronize: return "synchronize";
  }
  throw std::logic_error("name: not an IssueRequest::Kind");
}

/// Queue of one member's requests, with one writer and one reader. Each of the two counters has a cache line that only
/// one side writes.
struct LaunchGroup::MemberSlot {
  std::vector<IssueRequest> requests = std::vector<IssueRequest>(kQueueSlots);
  std::atomic<OperationIssuer*> issuer{nullptr};
  std::atomic<bool> leaving{false};
  alignas(64) std::atomic<std::uint64_t> submitted{0};
  alignas(64) std::atomic<std::uint64_t> issued{0};
  // Used only by the first member's thread.
  alignas(64) std::uint64_t submitted_seen = 0;
  std::uint64_t next = 0;

  IssueRequest& at(std::uint64_t number) { return requests[number % kQueueSlots]; }
};

LaunchGroup::LaunchGroup(int members) : finished_(static_cast<std::size_t>(members)) {
  for (int i = 0; i < members; ++i) slots_.push_back(std::make_unique<MemberSlot>());
}

LaunchGroup::~LaunchGroup() = default;

LaunchGroup::Member::Member(LaunchGroup& group, int index, OperationIssuer& issuer, const Team& world)
    : group_(group), index_(index), issuer_(issuer), world_(world) {
  if (index_ > 0) {
    group_.slots_[static_cast<std::size_t>(index_)]->issuer.store(&issuer_, std::memory_order_release);
    return;
  }
  LeaderState expected = LeaderState::absent;
  if (!group_.leader_.compare_exchange_strong(expected, LeaderState::joined)) throw JobAborted();
}

LaunchGroup::Member::~Member() {
  if (index_ == 0) {
    group_.recover_all(issuer_);
    group_.leader_.store(LeaderState::left, std::memory_order_release);
    return;
  }
  MemberSlot& slot = *group_.slots_[static_cast<std::size_t>(index_)];
  slot.leaving.store(true, std::memory_order_release);
  LeaderState expected = LeaderState::absent;
  if (!group_.leader_.compare_exchange_strong(expected, LeaderState::refused))
    spin_until([&] { return group_.leader_.load(std::memory_order_acquire) != LeaderState::joined; }, [] {});
  slot.issuer.store(nullptr, std::memory_order_release);
  for (IssueRequest& request : slot.requests) request.graph.reset();
}

IssueRequest& LaunchGroup::Member::next_request() {
  if (index_ == 0) return request_;
  MemberSlot& slot = *group_.slots_[static_cast<std::size_t>(index_)];
  if (submitted_ - issued_seen_ >= kQueueSlots) {
    // Wait until half of the slots are free, so that the two threads do not contend for every slot.
    spin_until(
        [&] {
          issued_seen_ = slot.issued.load(std::memory_order_acquire);
          return submitted_ - issued_seen_ <= kQueueSlots / 2;
        },
        [&] {
          throw_if_aborted(world_);
          if (group_.leader_.load(std::memory_order_acquire) == LeaderState::left)
            throw std::logic_error(
                fmt::format("member {} of a launch group continues after the first member has ended", index_));
        });
  }
  return slot.at(submitted_);
}

void LaunchGroup::Member::submit() {
  if (index_ == 0) {
    group_.issue_for_all(request_, issuer_, world_);
    request_.graph.reset();
    return;
  }
  MemberSlot& slot = *group_.slots_[static_cast<std::size_t>(index_)];
  slot.submitted.store(++submitted_, std::memory_order_release);
}

void LaunchGroup::Member::flush() {
  if (index_ == 0) return;
  MemberSlot& slot = *group_.slots_[static_cast<std::size_t>(index_)];
  spin_until(
      [&] {
        issued_seen_ = slot.issued.load(std::memory_order_acquire);
        return issued_seen_ == submitted_;
      },
      [&] {
        throw_if_aborted(world_);
        if (group_.leader_.load(std::memory_order_acquire) == LeaderState::left &&
            slot.issued.load(std::memory_order_acquire) != submitted_)
          throw std::logic_error(
              fmt::format("member {} of a launch group submitted {} after the first member has ended", index_,
                          name(slot.at(submitted_ - 1).kind)));
      });
}

template <class Each>
void LaunchGroup::for_siblings(const Each& each) {
  for (std::size_t i = 1; i < slots_.size(); ++i) each(*slots_[i]);
}

/// Runs in the first member's thread: issues its request together with the same request of every other member.
void LaunchGroup::issue_for_all(const IssueRequest& own, OperationIssuer& issuer, const Team& world) {
  try {
    for_siblings([&](MemberSlot& slot) { wait_for_request(slot, own, world); });
    issue_all(own, issuer, world);
  } catch (...) {
    recover_all(issuer);
    throw;
  }
  for_siblings([](MemberSlot& slot) {
    // Write shared lines only if necessary. A member waits either for its last request, which this thread has seen by
    // then, or for free slots. Prefetch the next request, which the member may already have written.
    IssueRequest& finished = slot.at(slot.next);
    if (finished.graph) finished.graph.reset();
    ++slot.next;
    if (slot.next == slot.submitted_seen || slot.next % kRequestsPerNotice == 0)
      slot.issued.store(slot.next, std::memory_order_release);
    const auto* const next = reinterpret_cast<const std::byte*>(&slot.at(slot.next));
    for (std::size_t line = 0; line < sizeof(IssueRequest); line += kLineBytes) __builtin_prefetch(next + line);
  });
}

/// Waits until the member has submitted its next request, which must have the same kind.
void LaunchGroup::wait_for_request(MemberSlot& slot, const IssueRequest& own, const Team& world) {
  if (slot.submitted_seen == slot.next) {
    spin_until(
        [&] {
          slot.submitted_seen = slot.submitted.load(std::memory_order_acquire);
          return slot.submitted_seen != slot.next;
        },
        [&] {
          throw_if_aborted(world);
          if (slot.leaving.load(std::memory_order_acquire) &&
              slot.submitted.load(std::memory_order_acquire) == slot.next)
            throw std::logic_error(fmt::format(
                "a member of a launch group has ended before the first member submitted {}", name(own.kind)));
        });
  }
  const IssueRequest::Kind theirs = slot.at(slot.next).kind;
  if (theirs != own.kind)
    throw std::logic_error(fmt::format("a member of a launch group submitted {}, but the first member submitted {}",
                                       name(theirs), name(own.kind)));
}

void LaunchGroup::issue_all(const IssueRequest& own, OperationIssuer& issuer, const Team& world) {
  const auto run_each = [&] {
    issuer.run(own);
    for_siblings([](MemberSlot& slot) { slot.issuer.load(std::memory_order_relaxed)->run(slot.at(slot.next)); });
  };
  switch (own.kind) {
    case IssueRequest::Kind::synchronize: wait_until_finished(issuer, world); return;
    case IssueRequest::Kind::begin_group: begin_nccl_group(issuer); return;
    case IssueRequest::Kind::end_group: end_nccl_group(issuer); return;
    default: break;
  }
  if (size() == 1 || !starts_in_nccl_group(own.kind)) {
    run_each();
    return;
  }
  begin_nccl_group(issuer);
  run_each();
  end_nccl_group(issuer);
}

void LaunchGroup::begin_nccl_group(OperationIssuer& issuer) {
  issuer.begin_nccl_group();
  ++nccl_group_depth_;
}

/// A group that fails to start has ended as well.
void LaunchGroup::end_nccl_group(OperationIssuer& issuer) {
  --nccl_group_depth_;
  issuer.end_nccl_group();
}

/// Ends everything that this thread began: NCCL groups before captures, because within an open group NCCL defers all
/// calls, even an abort.
void LaunchGroup::recover_all(OperationIssuer& issuer) noexcept {
  for (; nccl_group_depth_ > 0; --nccl_group_depth_) issuer.abort_nccl_group();
  issuer.recover();
  for_siblings([](MemberSlot& slot) {
    if (OperationIssuer* const theirs = slot.issuer.load(std::memory_order_acquire)) theirs->recover();
  });
}

/// Waits like nccl-tests: polls each device in turn without sleeping.
void LaunchGroup::wait_until_finished(OperationIssuer& issuer, const Team& world) {
  std::ranges::fill(finished_, 0);
  std::size_t unfinished = slots_.size();
  for (unsigned poll = 1;; ++poll) {
    bool any = false;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      OperationIssuer& theirs = i == 0 ? issuer : *slots_[i]->issuer.load(std::memory_order_relaxed);
      if (finished_[i] || !theirs.finished()) continue;
      finished_[i] = 1;
      any = true;
      --unfinished;
    }
    if (unfinished == 0) return;
    if (any) continue;
    if (poll % kPollsPerYield == 0) throw_if_aborted(world);
    sched_yield();
  }
}

}  // namespace busbw
