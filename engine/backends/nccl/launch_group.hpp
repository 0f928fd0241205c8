#pragma once
// Issues the operations of all ranks of one -t thread. Each rank submits requests from its own thread; the first member
// issues every operation for all ranks. As in nccl-tests, one thread drives its -g GPUs. No other thread calls the
// driver while operations are timed.
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

/// A request of one rank, in stream order. It fills whole cache lines, because it moves from one thread to another.
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
    stamp,  // timestamp number `count`
    begin_capture,
    end_capture,
    instantiate_graph,  // of the captured operations, once no rank of the group captures any more
    issue_graph,
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
  std::shared_ptr<void> graph;  // of issue_graph
  std::vector<Transfer> sends;  // of exchange
  std::vector<Transfer> recvs;
};

/// "all_reduce", "copy", ...
const char* name(IssueRequest::Kind);

/// Carries out the requests of one rank. Only the thread of the group's first member calls it.
class OperationIssuer {
 public:
  virtual ~OperationIssuer() = default;
  /// Runs a request of any kind except begin_group, end_group and synchronize.
  virtual void run(const IssueRequest&) = 0;
  /// Requests that any issuers of this thread run between these two calls start as one.
  virtual void begin_nccl_group() = 0;
  virtual void end_nccl_group() = 0;
  /// Ends the group instead of end_nccl_group after a failure: the requests since begin_nccl_group need not start.
  virtual void abort_nccl_group() noexcept = 0;
  /// True if all requests that were run have finished on the device.
  virtual bool finished() = 0;
  /// After a failure: ends open captures and gates.
  virtual void recover() noexcept = 0;
};

/// The ranks of one -t thread. Create it before the threads of its ranks; it serves one communicator of each rank.
class LaunchGroup {
 public:
  explicit LaunchGroup(int members);
  ~LaunchGroup();
  LaunchGroup(const LaunchGroup&) = delete;
  LaunchGroup& operator=(const LaunchGroup&) = delete;
  int size() const { return static_cast<int>(slots_.size()); }

  /// One rank's handle to the group, used by its own thread. All members submit the same kinds in the same order. Waits
  /// throw JobAborted if the job is aborted. A member that submits other, fewer or more requests than the first member
  /// causes a std::logic_error.
  class Member {
   public:
    /// `issuer` and `world` must outlive this.
    Member(LaunchGroup& group, int index, OperationIssuer& issuer, const Team& world);
    /// The first member recovers all issuers. Another member waits for that, because the first one may still use its
    /// issuer.
    ~Member();
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

    /// Storage for the next request. Set `kind` and the fields that belong to it.
    IssueRequest& next_request();
    /// The first member returns when the request is issued for all. Other members return when it is queued; the queue
    /// is bounded.
    void submit();
    /// Returns when all submitted requests are issued. A `synchronize` counts as issued when the device has finished.
    void flush();

   private:
    LaunchGroup& group_;
    int index_;
    OperationIssuer& issuer_;
    const Team& world_;
    IssueRequest request_;  // the first member's request
    std::uint64_t submitted_ = 0;
    std::uint64_t issued_seen_ = 0;
  };

 private:
  struct MemberSlot;
  enum class LeaderState : int { absent, joined, left, refused };

  void issue_for_all(const IssueRequest& own, OperationIssuer& issuer, const Team& world);
  void wait_for_request(MemberSlot& slot, const IssueRequest& own, const Team& world);
  void issue_all(const IssueRequest& own, OperationIssuer& issuer, const Team& world);
  void begin_nccl_group(OperationIssuer& issuer);
  void end_nccl_group(OperationIssuer& issuer);
  void recover_all(OperationIssuer& issuer) noexcept;
  void wait_until_finished(OperationIssuer& issuer, const Team& world);
  template <class Each>
  void for_siblings(const Each& each);

  std::vector<std::unique_ptr<MemberSlot>> slots_;  // entry 0, of the first member, is unused
  std::vector<unsigned char> finished_;             // by member, while the first one waits
  int nccl_group_depth_ = 0;                        // open NCCL groups, used by the first member's thread
  std::atomic<LeaderState> leader_{LeaderState::absent};
};

}  // namespace busbw
