#pragma once
// Issues the operations of several ranks from one thread (-g: GPUs per thread). Every rank has its own thread, which
// submits requests. Only the thread of the group's first member, the leader, issues operations, for all members. So the
// driver sees one thread per -g GPUs while operations are timed, as with a -t thread of nccl-tests. This file knows no
// CUDA; OperationIssuer calls the driver.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/backend.hpp"
#include "common/values/types.hpp"
#include "rendezvous/team/team.hpp"

namespace busbw {

/// One operation that a rank requests, in the order of its stream. A request fills whole cache lines, because it moves
/// from one thread to another.
struct alignas(64) IssueRequest {
  /// The collectives come first, and `exchange` is the last one: needs_nccl_group (launch_group.cpp) relies on this
  /// order.
  enum class Kind : std::uint8_t {
    all_reduce,
    reduce,
    reduce_scatter,
    all_gather,
    broadcast,
    gather,
    scatter,
    alltoall,
    put,
    exchange,
    copy,  // `count` bytes
    begin_nccl_group,
    end_nccl_group,
    record_timestamp,  // number `count`
    begin_capture,
    end_capture,
    /// Makes a graph of the captured operations, after all ranks of the group have ended the capture. The issuer keeps
    /// the graph.
    instantiate_graph,
    issue_graph,
    close_gate,  // closing number `count`
    synchronize,
  };
  Kind kind = Kind::synchronize;
  Dtype dtype = Dtype::float32;
  Redop redop = Redop::sum;
  int root = 0;
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  std::size_t count = 0;        // in elements, unless the kind gives it another meaning
  std::shared_ptr<void> graph;  // the graph to launch; only for issue_graph
  std::vector<Transfer> sends;  // of exchange
  std::vector<Transfer> recvs;
  std::vector<Put> puts;     // of put
  std::vector<AwaitedPut> awaited_puts;
};

/// "all_reduce", "copy", ...
const char* name(IssueRequest::Kind);

/// Carries out the requests of one rank. The leader's thread calls it.
class OperationIssuer {
 public:
  virtual ~OperationIssuer() = default;
  /// Runs a request of any kind except begin_nccl_group, end_nccl_group and synchronize.
  virtual void run(const IssueRequest&) = 0;
  /// Requests that issuers of this thread run between these two calls start together (ncclGroupStart, ncclGroupEnd).
  virtual void begin_nccl_group() = 0;
  virtual void end_nccl_group() = 0;
  /// Call after a failure instead of end_nccl_group: the requests since begin_nccl_group need not start.
  virtual void abort_nccl_group() noexcept = 0;
  /// True if all requests that were run have finished on the device.
  virtual bool has_finished() = 0;
  /// After a failure: ends open captures and gates.
  virtual void recover() noexcept = 0;
};

/// The ranks of one -t thread. Create the group before the threads of its ranks. Each rank creates one Member in the
/// life of the group, for one communicator.
class LaunchGroup {
  struct MemberQueue;

 public:
  explicit LaunchGroup(int members);
  ~LaunchGroup();
  LaunchGroup(const LaunchGroup&) = delete;
  LaunchGroup& operator=(const LaunchGroup&) = delete;
  int size() const { return static_cast<int>(queues_.size()); }

  /// One rank's handle to the group, used by its own thread. All members submit requests of the same kinds in the same
  /// order; otherwise a std::logic_error is thrown. Waits throw JobAborted if the job is aborted.
  class Member {
   public:
    /// Member 0 is the leader. `issuer` and `world` must outlive this.
    Member(LaunchGroup& group, int index, OperationIssuer& issuer, const Team& world);
    /// The leader recovers all issuers. Another member waits until then, because the leader may still use the issuer of
    /// that member.
    ~Member();
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

    /// Storage for the next request. Set `kind` and the fields that belong to it.
    IssueRequest& next_request();
    /// Submits the request of next_request. The leader returns when the request is issued for all members. Other
    /// members return when it is queued.
    void submit();
    /// Returns when all submitted requests are issued. A `synchronize` counts as issued when the device has finished.
    void flush();

   private:
    bool is_leader() const { return index_ == 0; }
    /// Queue of this member, which must not be the leader.
    MemberQueue& queue() { return *group_.queues_[static_cast<std::size_t>(index_)]; }

    LaunchGroup& group_;
    int index_;
    OperationIssuer& issuer_;
    const Team& world_;
    IssueRequest request_;  // the leader's request; other members use their queues
    std::uint64_t submitted_ = 0;    // number of submitted requests
    std::uint64_t issued_seen_ = 0;  // number of issued requests when this member last looked
  };

 private:
  /// joined and left: the leader's Member was created and destroyed. refused: the Member of another rank was destroyed
  /// before the leader's Member was created. The constructor of the leader's Member then throws.
  enum class LeaderState : int { absent, joined, left, refused };

  void wait_and_issue(const IssueRequest& leader_request, OperationIssuer& leader_issuer, const Team& world);
  void wait_for_request(MemberQueue& queue, const IssueRequest& leader_request, const Team& world);
  void issue_submitted(const IssueRequest& leader_request, OperationIssuer& leader_issuer, const Team& world);
  void begin_nccl_group(OperationIssuer& leader_issuer);
  void end_nccl_group(OperationIssuer& leader_issuer);
  void recover_all(OperationIssuer& leader_issuer) noexcept;
  void wait_until_finished(OperationIssuer& leader_issuer, const Team& world);
  template <class Visit>
  void for_other_members(const Visit& visit);

  std::vector<std::unique_ptr<MemberQueue>> queues_;  // entry 0, of the leader, is unused
  std::vector<unsigned char> has_finished_;           // by member, while the leader waits
  int nccl_group_depth_ = 0;                          // open NCCL groups, used by the leader's thread
  std::atomic<LeaderState> leader_state_{LeaderState::absent};
};

}  // namespace busbw
