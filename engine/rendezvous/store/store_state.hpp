#pragma once
// What a store remembers and who waits for it: no threads, no sockets, no clock. The stores in memory and over TCP are
// ways to reach one of these.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "rendezvous/team/job.hpp"
#include "values/message.hpp"

namespace busbw {

/// What a member asks a store for.
struct StoreRequest {
  enum class Op : std::uint8_t { set, get, add, barrier, missing };
  Op op = Op::get;
  std::uint32_t number = 0;  // the member's own number of this request
  std::string key;
  Bytes value;               // set
  std::int64_t amount = 0;   // set: reads; add: what to add; barrier: how many members
  std::int32_t member = 0;   // barrier

  Bytes packed() const;
  /// Throws BrokenMessage.
  static StoreRequest unpack(std::span<const std::byte> bytes);
};

/// The answer to one request, for the client that made it.
struct StoreReply {
  enum class Kind : std::uint8_t { done, refused };
  std::uint64_t client = 0;
  std::uint32_t number = 0;
  Kind kind = Kind::done;
  Bytes value;  // get: the value; add: the sum; missing: the members that have not come, as int32; refused: the reason
};

class StoreState {
 public:
  /// All values, with their keys, may take this much; more is refused.
  static constexpr std::size_t kMaxBytes = std::size_t{256} << 20;

  /// `max_members`: what a barrier may ask for.
  explicit StoreState(std::int64_t max_members = 1 << 24) : max_members_(max_members) {}

  /// Takes a request and gives the answers that it makes possible: to nobody, to its client, or to many that waited.
  std::vector<StoreReply> take(std::uint64_t client, StoreRequest request);
  /// Forgets what a client that has gone waits for.
  void forget(std::uint64_t client);
  std::size_t bytes() const { return bytes_; }

 private:
  struct Waiter {
    std::uint64_t client;
    std::uint32_t number;
  };
  struct Entry {
    Bytes value;
    std::int64_t reads_left = 0;  // 0: kept for ever
  };
  struct BarrierState {
    std::vector<bool> has_come;
    int arrive = 0;
    std::vector<Waiter> waiting;
  };

  void set(std::uint64_t client, StoreRequest& request, std::vector<StoreReply>& answers);
  void get(const Waiter& who, const std::string& key, std::vector<StoreReply>& answers);
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
