// Queues between the members and the leader of a launch group. A member writes requests to its own queue. The leader
// takes one request from every queue, checks that their kinds are equal, and issues them together.
#include "backends/nccl/launch_group.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <stdexcept>

#include "backends/cache_line.hpp"
#include "rendezvous/team/wait.hpp"

namespace busbw {
namespace {

// Maximum number of requests that a member may be ahead of the leader.
constexpr std::size_t kQueueSlots = 256;
// The leader updates the counter that a member reads after this number of issued requests. A member with a full queue
// waits until half of its slots are free, so the interval is at most half of the slots.
constexpr std::size_t kRequestsPerUpdate = 64;
static_assert(kRequestsPerUpdate <= kQueueSlots / 2);
// Polls between two yields of the core: a few microseconds. More frequent yields would slow down the leader's thread,
// which may share a core with this one.
constexpr unsigned kPollsPerYield = 64;

/// Returns when `is_ready()` is true. Calls `on_yield`, which may throw, every kPollsPerYield polls.
template <class IsReady, class OnYield>
void spin_until(const IsReady& is_ready, const OnYield& on_yield) {
  for (unsigned poll = 1; !is_ready(); ++poll) {
    if (poll % kPollsPerYield == 0) {
      on_yield();
      sched_yield();
    } else {
      pause_briefly();
    }
  }
}

/// True for collectives, the kinds up to `exchange`: the requests of several ranks must be in one NCCL group.
bool needs_nccl_group(IssueRequest::Kind kind) { return kind <= IssueRequest::Kind::exchange; }

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
    case IssueRequest::Kind::put: return "put";
    case IssueRequest::Kind::exchange: return "exchange";
    case IssueRequest::Kind::copy: return "copy";
    case IssueRequest::Kind::begin_nccl_group: return "begin_nccl_group";
    case IssueRequest::Kind::end_nccl_group: return "end_nccl_group";
    case IssueRequest::Kind::record_timestamp: return "record_timestamp";
    case IssueRequest::Kind::begin_capture: return "begin_capture";
    case IssueRequest::Kind::end_capture: return "end_capture";
    case IssueRequest::Kind::instantiate_graph: return "instantiate_graph";
    case IssueRequest::Kind::issue_graph: return "issue_graph";
    case IssueRequest::Kind::close_gate: return "close_gate";
    case IssueRequest::Kind::synchronize: return "synchronize";
  }
  throw std::logic_error("name: not an IssueRequest::Kind");
}

/// Queue of one member's requests. The member's thread writes it and the leader's thread reads it. Each counter has its
/// own cache line, which one of the two threads writes.
struct LaunchGroup::MemberQueue {
  std::vector<IssueRequest> requests = std::vector<IssueRequest>(kQueueSlots);
  std::atomic<OperationIssuer*> issuer{nullptr};
  std::atomic<bool> is_leaving{false};
  alignas(64) std::atomic<std::uint64_t> submitted{0};  // number of submitted requests, written by the member
  alignas(64) std::atomic<std::uint64_t> issued{0};     // number of issued requests, written by the leader
  // Used by the leader's thread.
  alignas(64) std::uint64_t submitted_seen = 0;  // number of submitted requests when the leader last looked
  std::uint64_t next = 0;                        // number of the next request to issue

  IssueRequest& request(std::uint64_t number) { return requests[number % kQueueSlots]; }
};

LaunchGroup::LaunchGroup(int members) : has_finished_(static_cast<std::size_t>(members)) {
  for (int i = 0; i < members; ++i) queues_.push_back(std::make_unique<MemberQueue>());
}

LaunchGroup::~LaunchGroup() = default;

LaunchGroup::Member::Member(LaunchGroup& group, int index, OperationIssuer& issuer, const Team& world)
    : group_(group), index_(index), issuer_(issuer), world_(world) {
  if (!is_leader()) {
    queue().issuer.store(&issuer_, std::memory_order_release);
    return;
  }
  LeaderState expected = LeaderState::absent;
  if (!group_.leader_state_.compare_exchange_strong(expected, LeaderState::joined)) throw JobAborted();
}

LaunchGroup::Member::~Member() {
  if (is_leader()) {
    group_.recover_all(issuer_);
    group_.leader_state_.store(LeaderState::left, std::memory_order_release);
    return;
  }
  MemberQueue& own_queue = queue();
  own_queue.is_leaving.store(true, std::memory_order_release);
  // A leader that has not joined yet is refused. A leader that has joined may still use the issuer until it leaves.
  LeaderState expected = LeaderState::absent;
  if (!group_.leader_state_.compare_exchange_strong(expected, LeaderState::refused))
    spin_until([&] { return group_.leader_state_.load(std::memory_order_acquire) != LeaderState::joined; }, [] {});
  own_queue.issuer.store(nullptr, std::memory_order_release);
  for (IssueRequest& request : own_queue.requests) request.graph.reset();
}

IssueRequest& LaunchGroup::Member::next_request() {
  if (is_leader()) return request_;
  MemberQueue& own_queue = queue();
  if (submitted_ - issued_seen_ >= kQueueSlots) {
    // Wait until half of the slots are free, so that the two threads do not contend for every slot.
    spin_until(
        [&] {
          issued_seen_ = own_queue.issued.load(std::memory_order_acquire);
          return submitted_ - issued_seen_ <= kQueueSlots / 2;
        },
        [&] {
          throw_if_aborted(world_);
          if (group_.leader_state_.load(std::memory_order_acquire) == LeaderState::left)
            throw std::logic_error(
                fmt::format("member {} of a launch group continues after the first member has ended", index_));
        });
  }
  return own_queue.request(submitted_);
}

void LaunchGroup::Member::submit() {
  if (is_leader()) {
    group_.wait_and_issue(request_, issuer_, world_);
    request_.graph.reset();
    return;
  }
  ++submitted_;
  queue().submitted.store(submitted_, std::memory_order_release);
}

void LaunchGroup::Member::flush() {
  if (is_leader()) return;  // `submit` has issued its requests
  MemberQueue& own_queue = queue();
  spin_until(
      [&] {
        issued_seen_ = own_queue.issued.load(std::memory_order_acquire);
        return issued_seen_ == submitted_;
      },
      [&] {
        throw_if_aborted(world_);
        if (group_.leader_state_.load(std::memory_order_acquire) == LeaderState::left &&
            own_queue.issued.load(std::memory_order_acquire) != submitted_)
          throw std::logic_error(
              fmt::format("member {} of a launch group submitted {} after the first member has ended", index_,
                          name(own_queue.request(submitted_ - 1).kind)));
      });
}

template <class Visit>
void LaunchGroup::for_other_members(const Visit& visit) {
  for (std::size_t i = 1; i < queues_.size(); ++i) visit(*queues_[i]);
}

/// Runs in the leader's thread: waits until every other member has submitted a request of the same kind, and issues all
/// these requests together.
void LaunchGroup::wait_and_issue(const IssueRequest& leader_request, OperationIssuer& leader_issuer,
                                 const Team& world) {
  try {
    for_other_members([&](MemberQueue& queue) { wait_for_request(queue, leader_request, world); });
    issue_submitted(leader_request, leader_issuer, world);
  } catch (...) {
    recover_all(leader_issuer);
    throw;
  }
  for_other_members([](MemberQueue& queue) {
    IssueRequest& issued_request = queue.request(queue.next);
    if (issued_request.graph) issued_request.graph.reset();
    ++queue.next;
    // Write the shared counter only if the member may wait for it: for its last request, or for free slots.
    if (queue.next == queue.submitted_seen || queue.next % kRequestsPerUpdate == 0)
      queue.issued.store(queue.next, std::memory_order_release);
    // Prefetch the next request, which the member may already have written.
    const auto* const next_request = reinterpret_cast<const std::byte*>(&queue.request(queue.next));
    for (std::size_t offset = 0; offset < sizeof(IssueRequest); offset += kCacheLineBytes)
      __builtin_prefetch(next_request + offset);
  });
}

/// Waits until the member has submitted its next request, which must have the same kind.
void LaunchGroup::wait_for_request(MemberQueue& queue, const IssueRequest& leader_request, const Team& world) {
  if (queue.submitted_seen == queue.next) {
    spin_until(
        [&] {
          queue.submitted_seen = queue.submitted.load(std::memory_order_acquire);
          return queue.submitted_seen != queue.next;
        },
        [&] {
          throw_if_aborted(world);
          if (queue.is_leaving.load(std::memory_order_acquire) &&
              queue.submitted.load(std::memory_order_acquire) == queue.next)
            throw std::logic_error(
                fmt::format("a member of a launch group has ended before the first member submitted {}",
                            name(leader_request.kind)));
        });
  }
  const IssueRequest::Kind member_kind = queue.request(queue.next).kind;
  if (member_kind != leader_request.kind)
    throw std::logic_error(fmt::format("a member of a launch group submitted {}, but the first member submitted {}",
                                       name(member_kind), name(leader_request.kind)));
}

/// Issues the next request of every member. All members have submitted it.
void LaunchGroup::issue_submitted(const IssueRequest& leader_request, OperationIssuer& leader_issuer,
                                  const Team& world) {
  const auto run_requests = [&] {
    leader_issuer.run(leader_request);
    for_other_members(
        [](MemberQueue& queue) { queue.issuer.load(std::memory_order_relaxed)->run(queue.request(queue.next)); });
  };
  switch (leader_request.kind) {
    case IssueRequest::Kind::synchronize: wait_until_finished(leader_issuer, world); return;
    case IssueRequest::Kind::begin_nccl_group: begin_nccl_group(leader_issuer); return;
    case IssueRequest::Kind::end_nccl_group: end_nccl_group(leader_issuer); return;
    default: break;
  }
  if (size() == 1 || !needs_nccl_group(leader_request.kind)) {
    run_requests();
    return;
  }
  begin_nccl_group(leader_issuer);
  run_requests();
  end_nccl_group(leader_issuer);
}

void LaunchGroup::begin_nccl_group(OperationIssuer& leader_issuer) {
  leader_issuer.begin_nccl_group();
  ++nccl_group_depth_;
}

/// The depth is decremented before the call, because a group has also ended if its operations fail to start.
void LaunchGroup::end_nccl_group(OperationIssuer& leader_issuer) {
  --nccl_group_depth_;
  leader_issuer.end_nccl_group();
}

/// Ends everything that this thread began: NCCL groups before captures, because within an open group NCCL defers all
/// calls, even an abort.
void LaunchGroup::recover_all(OperationIssuer& leader_issuer) noexcept {
  for (; nccl_group_depth_ > 0; --nccl_group_depth_) leader_issuer.abort_nccl_group();
  leader_issuer.recover();
  for_other_members([](MemberQueue& queue) {
    if (OperationIssuer* const member_issuer = queue.issuer.load(std::memory_order_acquire)) member_issuer->recover();
  });
}

/// Waits like nccl-tests: polls each device in turn without sleeping.
void LaunchGroup::wait_until_finished(OperationIssuer& leader_issuer, const Team& world) {
  std::ranges::fill(has_finished_, 0);
  std::size_t unfinished = queues_.size();
  for (unsigned poll = 1;; ++poll) {
    bool any_finished = false;
    for (std::size_t i = 0; i < queues_.size(); ++i) {
      OperationIssuer& member_issuer = i == 0 ? leader_issuer : *queues_[i]->issuer.load(std::memory_order_relaxed);
      if (has_finished_[i] || !member_issuer.has_finished()) continue;
      has_finished_[i] = 1;
      any_finished = true;
      --unfinished;
    }
    if (unfinished == 0) return;
    if (any_finished) continue;
    if (poll % kPollsPerYield == 0) throw_if_aborted(world);
    sched_yield();
  }
}

}  // namespace busbw
