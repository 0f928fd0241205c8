#pragma once
// The ranks of one -t thread: each says from a thread of its own what it wants done, and the first of them does it for
// all, operation by operation. As in nccl-tests one thread then drives its -g GPUs, and no other asks the driver
// anything while operations are timed.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/backend.hpp"
#include "common/values/types.hpp"
#include "rendezvous/team/team.hpp"

namespace busbw {

/// What one rank wants done, in the order of its stream. Whole cache lines, which go from one thread to another.
struct alignas(64) IssueRequest {
  enum class Kind : std::uint8_t {
    all_reduce,
    reduce,
    reduce_scatter,
    all_gather,
    broadcast,
    gather,
    scatter,
    alltoall,
    exchange,
    copy,  // `count` bytes
    begin_group,
    end_group,
    stamp,  // number `count`
    begin_recording,
    end_recording,
    instantiate_graph,  // what was recorded, once no rank of the group records
    issue_recording,
    close_gate,  // for the `count`-th time
    synchronize,
  };
  Kind kind = Kind::synchronize;
  Dtype dtype = Dtype::float32;
  Redop redop = Redop::sum;
  int root = 0;
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  std::size_t count = 0;
  std::shared_ptr<void> recording;  // of issue_recording
  std::vector<Transfer> sends;      // of exchange
  std::vector<Transfer> recvs;
};

/// "all_reduce", "copy", ...
const char* name(IssueRequest::Kind);

/// Does it, for one rank. Called by the thread of the group's first rank alone.
class OperationIssuer {
 public:
  virtual ~OperationIssuer() = default;
  /// Any kind but begin_group, end_group and synchronize.
  virtual void run(const IssueRequest&) = 0;
  /// What any launchers of this thread run in between is started as one.
  virtual void begin_nccl_group() = 0;
  virtual void end_nccl_group() = 0;
  /// After a failure, in place of end_joint: what was run since begin_joint need not be started.
  virtual void abort_nccl_group() noexcept = 0;
  /// Whether all that was run has finished on the device.
  virtual bool finished() = 0;
  /// After a failure: ends what was begun and cannot go on.
  virtual void recover() noexcept = 0;
};

/// Made before its ranks' threads, for one communicator of each of them.
class LaunchGroup {
 public:
  explicit LaunchGroup(int members);
  ~LaunchGroup();
  LaunchGroup(const LaunchGroup&) = delete;
  LaunchGroup& operator=(const LaunchGroup&) = delete;
  int size() const { return static_cast<int>(places_.size()); }

  /// One rank's part in the group, from its own thread. All members submit the same kinds in the same order. Every wait
  /// ends with Aborted once the job is; a member that asks for something else than the first one, or for less or more,
  /// is a std::logic_error that says so.
  class Member {
   public:
    /// `launcher` and `world` must outlive this.
    Member(LaunchGroup& group, int index, OperationIssuer& launcher, const Team& world);
    /// Of the first member: recovers all launchers. Of another: waits for that, because the first might use its
    /// launcher.
    ~Member();
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

    /// Where to write the next launch; only `kind` and what belongs to it need be set.
    IssueRequest& next_request();
    /// The first member returns when it is done for all, another as soon as it is noted (a bounded number of them).
    void submit();
    /// Returns when all that was submitted is done, which with a `synchronize` means: has finished.
    void flush();

   private:
    LaunchGroup& group_;
    int index_;
    OperationIssuer& launcher_;
    const Team& world_;
    IssueRequest own_;  // the first member's draft
    std::uint64_t submitted_ = 0;
    std::uint64_t done_seen_ = 0;
  };

 private:
  struct MemberSlot;
  enum class LeaderState : int { absent, joined, left, refused };

  void do_for_all(const IssueRequest& own, OperationIssuer& launcher, const Team& world);
  void await(MemberSlot& place, const IssueRequest& own, const Team& world);
  void run_all(const IssueRequest& own, OperationIssuer& launcher, const Team& world);
  void begin_nccl_group(OperationIssuer& launcher);
  void end_nccl_group(OperationIssuer& launcher);
  void recover_all(OperationIssuer& launcher) noexcept;
  void wait_until_finished(OperationIssuer& launcher, const Team& world);
  template <class Each>
  void for_siblings(const Each& each);

  std::vector<std::unique_ptr<MemberSlot>> places_;  // of the first member: unused
  std::vector<unsigned char> finished_;         // while the first member waits
  int joint_depth_ = 0;                         // joint starts that are begun, in the first member's thread
  std::atomic<LeaderState> first_{LeaderState::absent};
};

}  // namespace busbw
