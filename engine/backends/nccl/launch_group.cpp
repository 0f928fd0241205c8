#include "backends/nccl/launch_group.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <stdexcept>

#include "rendezvous/team/wait.hpp"

namespace busbw {
namespace {

// Launches that a rank may be ahead of the first one.
constexpr std::size_t kSlots = 256;
// A rank that is ahead is told after so many launches: half of the slots free again is what it waits for.
constexpr std::size_t kLaunchesPerNotice = 64;
static_assert(kLaunchesPerNotice <= kSlots / 2);
// Looks between two that give the core away, some microseconds. Giving it away oftener costs the thread that launches,
// which may share a core with this one, more than looking does.
constexpr unsigned kLooksPerYield = 64;
constexpr std::size_t kLineBytes = 64;  // of a cache

/// Returns once `ready()` holds; `look_up()`, which may throw, is called now and then.
template <class Ready, class LookUp>
void spin_until(const Ready& ready, const LookUp& look_up) {
  for (unsigned look = 1; !ready(); ++look) {
    if (look % kLooksPerYield == 0) {
      look_up();
      sched_yield();
    } else {
      pause_briefly();
    }
  }
}

void throw_if_aborted(const Team& world) {
  if (world.aborted()) throw JobAborted();
}

bool starts_jointly(IssueRequest::Kind kind) { return kind <= IssueRequest::Kind::exchange; }

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
    case IssueRequest::Kind::begin_recording: return "begin_recording";
    case IssueRequest::Kind::end_recording: return "end_recording";
    case IssueRequest::Kind::instantiate_graph: return "make_ready";
    case IssueRequest::Kind::issue_recording: return "issue_recording";
    case IssueRequest::Kind::close_gate: return "close_gate";
    case IssueRequest::Kind::synchronize: return "synchronize";
  }
  throw std::logic_error("name: not a Launch::Kind");
}

/// What a rank has submitted: one writer, one reader. Each of the two counts is on a line that one side alone writes.
struct LaunchGroup::MemberSlot {
  std::vector<IssueRequest> slots = std::vector<IssueRequest>(kSlots);
  std::atomic<OperationIssuer*> launcher{nullptr};
  std::atomic<bool> leaving{false};
  alignas(64) std::atomic<std::uint64_t> submitted{0};
  alignas(64) std::atomic<std::uint64_t> done{0};
  // The first member's own.
  alignas(64) std::uint64_t submitted_seen = 0;
  std::uint64_t next = 0;

  IssueRequest& at(std::uint64_t number) { return slots[number % kSlots]; }
};

LaunchGroup::LaunchGroup(int members) : finished_(static_cast<std::size_t>(members)) {
  for (int i = 0; i < members; ++i) places_.push_back(std::make_unique<MemberSlot>());
}

LaunchGroup::~LaunchGroup() = default;

LaunchGroup::Member::Member(LaunchGroup& group, int index, OperationIssuer& launcher, const Team& world)
    : group_(group), index_(index), launcher_(launcher), world_(world) {
  if (index_ > 0) {
    group_.places_[static_cast<std::size_t>(index_)]->launcher.store(&launcher_, std::memory_order_release);
    return;
  }
  LeaderState expected = LeaderState::absent;
  if (!group_.first_.compare_exchange_strong(expected, LeaderState::joined)) throw JobAborted();
}

LaunchGroup::Member::~Member() {
  if (index_ == 0) {
    group_.recover_all(launcher_);
    group_.first_.store(LeaderState::left, std::memory_order_release);
    return;
  }
  MemberSlot& place = *group_.places_[static_cast<std::size_t>(index_)];
  place.leaving.store(true, std::memory_order_release);
  LeaderState expected = LeaderState::absent;
  if (!group_.first_.compare_exchange_strong(expected, LeaderState::refused))
    spin_until([&] { return group_.first_.load(std::memory_order_acquire) != LeaderState::joined; }, [] {});
  place.launcher.store(nullptr, std::memory_order_release);
  for (IssueRequest& launch : place.slots) launch.recording.reset();
}

IssueRequest& LaunchGroup::Member::next_request() {
  if (index_ == 0) return own_;
  MemberSlot& place = *group_.places_[static_cast<std::size_t>(index_)];
  if (submitted_ - done_seen_ >= kSlots) {
    // With half of the slots free again the two sides do not fight over every single one.
    spin_until(
        [&] {
          done_seen_ = place.done.load(std::memory_order_acquire);
          return submitted_ - done_seen_ <= kSlots / 2;
        },
        [&] {
          throw_if_aborted(world_);
          if (group_.first_.load(std::memory_order_acquire) == LeaderState::left)
            throw std::logic_error(fmt::format("member {} of a launch group goes on, and the first has ended", index_));
        });
  }
  return place.at(submitted_);
}

void LaunchGroup::Member::submit() {
  if (index_ == 0) {
    group_.do_for_all(own_, launcher_, world_);
    own_.recording.reset();
    return;
  }
  MemberSlot& place = *group_.places_[static_cast<std::size_t>(index_)];
  place.submitted.store(++submitted_, std::memory_order_release);
}

void LaunchGroup::Member::flush() {
  if (index_ == 0) return;
  MemberSlot& place = *group_.places_[static_cast<std::size_t>(index_)];
  spin_until(
      [&] {
        done_seen_ = place.done.load(std::memory_order_acquire);
        return done_seen_ == submitted_;
      },
      [&] {
        throw_if_aborted(world_);
        if (group_.first_.load(std::memory_order_acquire) == LeaderState::left &&
            place.done.load(std::memory_order_acquire) != submitted_)
          throw std::logic_error(fmt::format("member {} of a launch group asks for {}, and the first has ended", index_,
                                             name(place.at(submitted_ - 1).kind)));
      });
}

template <class Each>
void LaunchGroup::for_siblings(const Each& each) {
  for (std::size_t i = 1; i < places_.size(); ++i) each(*places_[i]);
}

/// The first member's thread: all that it submits is done here, with what the others submitted beside it.
void LaunchGroup::do_for_all(const IssueRequest& own, OperationIssuer& launcher, const Team& world) {
  try {
    for_siblings([&](MemberSlot& place) { await(place, own, world); });
    run_all(own, launcher, world);
  } catch (...) {
    recover_all(launcher);
    throw;
  }
  for_siblings([](MemberSlot& place) {
    // Nothing is written to lines that the other thread looks at without need: it waits for the last of what it
    // submitted, which this one has seen by then, or for slots. Those it has written already are fetched ahead.
    IssueRequest& finished = place.at(place.next);
    if (finished.recording) finished.recording.reset();
    ++place.next;
    if (place.next == place.submitted_seen || place.next % kLaunchesPerNotice == 0)
      place.done.store(place.next, std::memory_order_release);
    const auto* const next = reinterpret_cast<const std::byte*>(&place.at(place.next));
    for (std::size_t line = 0; line < sizeof(IssueRequest); line += kLineBytes) __builtin_prefetch(next + line);
  });
}

/// Waits until the member has submitted its next launch, which must be of the same kind.
void LaunchGroup::await(MemberSlot& place, const IssueRequest& own, const Team& world) {
  if (place.submitted_seen == place.next) {
    spin_until(
        [&] {
          place.submitted_seen = place.submitted.load(std::memory_order_acquire);
          return place.submitted_seen != place.next;
        },
        [&] {
          throw_if_aborted(world);
          if (place.leaving.load(std::memory_order_acquire) &&
              place.submitted.load(std::memory_order_acquire) == place.next)
            throw std::logic_error(
                fmt::format("a member of a launch group has ended, and the first asks for {}", name(own.kind)));
        });
  }
  const IssueRequest::Kind theirs = place.at(place.next).kind;
  if (theirs != own.kind)
    throw std::logic_error(fmt::format("a member of a launch group asks for {} where the first asks for {}",
                                       name(theirs), name(own.kind)));
}

void LaunchGroup::run_all(const IssueRequest& own, OperationIssuer& launcher, const Team& world) {
  const auto run_each = [&] {
    launcher.run(own);
    for_siblings([](MemberSlot& place) { place.launcher.load(std::memory_order_relaxed)->run(place.at(place.next)); });
  };
  switch (own.kind) {
    case IssueRequest::Kind::synchronize: wait_until_finished(launcher, world); return;
    case IssueRequest::Kind::begin_group: begin_nccl_group(launcher); return;
    case IssueRequest::Kind::end_group: end_nccl_group(launcher); return;
    default: break;
  }
  if (size() == 1 || !starts_jointly(own.kind)) {
    run_each();
    return;
  }
  begin_nccl_group(launcher);
  run_each();
  end_nccl_group(launcher);
}

void LaunchGroup::begin_nccl_group(OperationIssuer& launcher) {
  launcher.begin_nccl_group();
  ++joint_depth_;
}

/// One that fails to start is over, too.
void LaunchGroup::end_nccl_group(OperationIssuer& launcher) {
  --joint_depth_;
  launcher.end_nccl_group();
}

/// What this thread began it must end, joint starts before recordings: in an open one nothing else of NCCL is done at
/// once, an abort neither.
void LaunchGroup::recover_all(OperationIssuer& launcher) noexcept {
  for (; joint_depth_ > 0; --joint_depth_) launcher.abort_nccl_group();
  launcher.recover();
  for_siblings([](MemberSlot& place) {
    if (OperationIssuer* const theirs = place.launcher.load(std::memory_order_acquire)) theirs->recover();
  });
}

/// As nccl-tests waits: without sleeping, each device asked in its turn.
void LaunchGroup::wait_until_finished(OperationIssuer& launcher, const Team& world) {
  std::ranges::fill(finished_, 0);
  std::size_t missing = places_.size();
  for (unsigned look = 1;; ++look) {
    bool some = false;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      OperationIssuer& theirs = i == 0 ? launcher : *places_[i]->launcher.load(std::memory_order_relaxed);
      if (finished_[i] || !theirs.finished()) continue;
      finished_[i] = 1;
      some = true;
      --missing;
    }
    if (missing == 0) return;
    if (some) continue;
    if (look % kLooksPerYield == 0) throw_if_aborted(world);
    sched_yield();
  }
}

}  // namespace busbw
