#pragma once
// Contents and waiting clients of the rendezvous store, without threads, sockets or clocks. TcpStoreServer passes
// requests to it and delivers its replies.
#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "values/message.hpp"

namespace busbw {

/// Request of a member of the job, a process or a rank, to the store.
struct StoreRequest {
  /// `set`, `get` and `barrier` are the TcpStore functions of these names. `missing` asks for the members that have not
  /// arrived at a barrier.
  enum class Op : std::uint8_t { set, get, barrier, missing };
  Op op = Op::get;
  std::uint32_t number = 0;  // request number, chosen by the member
  std::string key = {};
  Bytes value = {};          // for set
  std::int64_t amount = 0;   // set: number of gets after which the value is removed (0: never); barrier: members
  /// barrier: index of the arriving member in its team. get: rank of the member that sets the key; -1: unknown.
  std::int32_t member = -1;

  static auto members(auto& self) {
    return std::tie(self.op, self.number, self.key, self.value, self.amount, self.member);
  }
};

/// Reply to one request, for the client that sent it.
struct StoreReply {
  enum class Kind : std::uint8_t { done, refused };
  std::uint64_t client = 0;
  std::uint32_t number = 0;
  Kind kind = Kind::done;
  Bytes value;  // get: value; missing: members that have not arrived, as int32; refused: reason

  /// The client's number is not sent: it means something only to the server.
  static auto members(auto& self) { return std::tie(self.number, self.kind, self.value); }
};

/// Not thread-safe.
class StoreState {
 public:
  static constexpr std::size_t kMaxKeyBytes = 256;
  static constexpr std::size_t kMaxValueBytes = std::size_t{1} << 20;
  /// Bound for the estimated memory of all keys, values and waits. Requests beyond this bound are refused.
  static constexpr std::size_t kMaxBytes = std::size_t{256} << 20;

  /// Far above the number of ranks of any job, so that counts do not overflow.
  static constexpr std::int64_t kMaxMembers = 1 << 24;

  /// `max_members`: number of ranks of the job, which is the maximum number of members of a barrier.
  explicit StoreState(std::int64_t max_members = kMaxMembers) : max_members_(max_members) {}

  /// Executes a request. Returns the replies that can be sent now: none if `client` must wait, the reply to `client`,
  /// or also replies to clients that waited for this request. `client` is any number that identifies a connection.
  std::vector<StoreReply> handle_request(std::uint64_t client, StoreRequest request);
  /// Continues without the `count` ranks from `first` on. Requests for keys that a lost rank has not set get an empty
  /// value, and barriers of the whole job do not wait for lost ranks. Returns the replies to clients that waited for
  /// these ranks.
  std::vector<StoreReply> lose_members(std::int32_t first, std::int32_t count);
  /// Drops the waits of a client that has disconnected.
  void drop_client(std::uint64_t client);
  /// Returns the estimated memory of all keys, values and waits.
  std::size_t bytes() const { return bytes_; }

 private:
  /// A client that waits for the reply to its request `number`.
  struct Waiter {
    std::uint64_t client;
    std::uint32_t number;
    std::int32_t member;  // see StoreRequest::member
  };
  struct Entry {
    Bytes value;
    std::int64_t reads_left = 0;  // 0: unlimited
  };
  struct BarrierState {
    std::vector<bool> has_arrived;  // by member
    int arrived = 0;                // number of members that have arrived
    std::vector<Waiter> waiters;
  };

  void set(std::uint64_t client, StoreRequest& request, std::vector<StoreReply>& replies);
  void get(const Waiter& waiter, const std::string& key, std::vector<StoreReply>& replies);
  void arrive_at_barrier(std::uint64_t client, const StoreRequest& request, std::vector<StoreReply>& replies);
  Bytes missing_members(const std::string& key) const;
  /// True for a barrier of all ranks. Only there, member numbers are ranks, and lost ranks count as arrived.
  bool is_of_whole_job(const BarrierState& barrier) const { return std::ssize(barrier.has_arrived) == max_members_; }
  /// Counts a lost member as arrived. Does nothing if it arrived before its loss.
  static void mark_arrived(BarrierState& barrier, std::int32_t member);
  /// Answers the clients at a barrier if all its members have arrived. True if so: the caller must erase the barrier.
  bool answer_if_complete(const std::string& key, const BarrierState& barrier, std::vector<StoreReply>& replies);
  std::string refusal_reason(const StoreRequest& request) const;

  std::unordered_map<std::string, Entry> entries_;
  std::unordered_map<std::string, std::vector<Waiter>> waiters_;
  std::unordered_map<std::string, BarrierState> barriers_;
  std::int64_t max_members_;
  std::set<std::int32_t> lost_members_;
  std::size_t bytes_ = 0;
};

}  // namespace busbw
