#pragma once
// Interface of the rendezvous store: a key-value store with which the members of a job communicate: before the
// measurement, and during it for all that is not measured. StoreTeam uses it.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rendezvous/team/job.hpp"
#include "values/message.hpp"

namespace busbw {

/// Keys and values shared by all members of a job; a member is a process or a rank. A call waits for its reply, at most
/// the time that the implementation was given. Then it throws Error (ExitCode::rank_lost), which names the missing key
/// or members. After an abort every call throws JobAborted.
class Store {
 public:
  static constexpr std::size_t kMaxKeyBytes = 256;
  static constexpr std::size_t kMaxValueBytes = std::size_t{1} << 20;

  virtual ~Store() = default;
  /// Stores `value`, at most kMaxValueBytes, under `key`. The value is removed after `reads` gets (0: never).
  virtual void set(const std::string& key, std::span<const std::byte> value, int reads = 0) = 0;
  /// Waits for the value of `key` and returns it.
  virtual Bytes get(const std::string& key) = 0;
  /// Waits for the values of several keys and returns them in order.
  virtual std::vector<Bytes> get_all(std::span<const std::string> keys) = 0;
  /// Adds to the number of `key`, initially 0, and returns the sum. Numbers are separate from the values of `set`.
  virtual std::int64_t add(const std::string& key, std::int64_t amount) = 0;
  /// Returns when `members` members have called it with this key. `member` is the index of the caller, from 0 on. A key
  /// is usable once.
  virtual void barrier(const std::string& key, int member, int members) = 0;
  /// Ends the waits of all members. The first failure is kept.
  virtual void abort(const Failure& failure) noexcept = 0;
  /// Returns the first failure, or nothing while the job is not aborted.
  virtual std::optional<Failure> failure() = 0;
};

}  // namespace busbw
