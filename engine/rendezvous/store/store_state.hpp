#pragma once
// Contents and waiting clients of a store, without threads, sockets or clocks. The stores in memory and over TCP are
// interfaces to it.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "rendezvous/team/job.hpp"
#include "values/message.hpp"

namespace busbw {

/// Request of a member to a store.
struct StoreRequest {
  enum class Op : std::uint8_t { set, get, add, barrier, missing };
  Op op = Op::get;
  std::uint32_t number = 0;  // request number, chosen by the member
  std::string key;
  Bytes value;               // for set
  std::int64_t amount = 0;   // set: reads; add: summand; barrier: number of members
  std::int32_t member = 0;   // for barrier

  Bytes packed() const;
  /// Throws BrokenMessage if the bytes are not a request.
  static StoreRequest unpack(std::span<const std::byte> bytes);
};

/// Reply to one request, for the client that sent it.
struct StoreReply {
  enum class Kind : std::uint8_t { done, refused };
  std::uint64_t client = 0;
  std::uint32_t number = 0;
  Kind kind = Kind::done;
  Bytes value;  // get: value; add: sum; missing: members that have not arrived, as int32; refused: reason
};

class StoreState {
 public:
  /// Bound for the memory of all keys and values. Requests beyond it are refused.
  static constexpr std::size_t kMaxBytes = std::size_t{256} << 20;

  /// `max_members`: maximum number of members of a barrier.
  explicit StoreState(std::int64_t max_members = 1 << 24) : max_members_(max_members) {}

  /// Processes a request. Returns all replies that it makes possible: none, one to the client, or several to waiting
  /// clients.
  std::vector<StoreReply> take(std::uint64_t client, StoreRequest request);
  /// Drops the waits of a client that has disconnected.
  void forget(std::uint64_t client);
  std::size_t bytes() const { return bytes_; }

 private:
  struct Waiter {
    std::uint64_t client;
    std::uint32_t number;
  };
  struct Entry {
    Bytes value;
    std::int64_t reads_left = 0;  // 0: unlimited
  };
  struct BarrierState {
    std::vector<bool> has_arrived;
    int arrived = 0;
    std::vector<Waiter> waiting;
  };

  void set(std::uint64_t client, StoreRequest& request, std::vector<StoreReply>& answers);
  void get(const Waiter& waiter, const std::string& key, std::vector<StoreReply>& answers);
  void arrive(std::uint64_t client, const StoreRequest& request, std::vector<StoreReply>& answers);
  std::string refusal(const StoreRequest& request) const;

  std::unordered_map<std::string, Entry> entries_;
  std::unordered_map<std::string, std::int64_t> sums_;
  std::unordered_map<std::string, std::vector<Waiter>> waiting_;
  std::unordered_map<std::string, BarrierState> barriers_;
  std::int64_t max_members_;
  std::size_t bytes_ = 0;
};

}  // namespace busbw
