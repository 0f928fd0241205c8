#pragma once
// What the processes of a job agree through before and beside what they measure: a few keys and values.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rendezvous/team/job.hpp"
#include "values/message.hpp"

namespace busbw {

/// Keys and values that all members of a job share. Calls wait until they are answered, and no longer than the store's
/// limit: then Error (Exit::rank_lost) names who or what is missing. Once the job is aborted every call throws Aborted.
class Store {
 public:
  static constexpr std::size_t kMaxKeyBytes = 256;
  static constexpr std::size_t kMaxValueBytes = std::size_t{1} << 20;

  virtual ~Store() = default;
  /// Keeps `value`, at most kMaxValueBytes, under `key`; after `reads` gets it is forgotten (0: never).
  virtual void set(const std::string& key, std::span<const std::byte> value, int reads = 0) = 0;
  /// The value under `key`, once there is one.
  virtual Bytes get(const std::string& key) = 0;
  /// The values of several keys, in their order.
  virtual std::vector<Bytes> get_all(std::span<const std::string> keys) = 0;
  /// Adds to the number under `key`, 0 before the first, and returns the sum.
  virtual std::int64_t add(const std::string& key, std::int64_t amount) = 0;
  /// Returns when all of `members` have called it with this key; `member` is this one, from 0 on. A key can be used
  /// once.
  virtual void barrier(const std::string& key, int member, int members) = 0;
  /// Makes the waits of all members end. The first reason stands.
  virtual void abort(const Failure& why) noexcept = 0;
  /// Missing while the job is not aborted.
  virtual std::optional<Failure> failure() = 0;
};

}  // namespace busbw
