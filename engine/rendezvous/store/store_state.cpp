// Carries out the requests of the rendezvous store in memory: set and get of values, and barriers. A request that must
// wait is stored as a Waiter and answered later.
#include "rendezvous/store/store_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace busbw {
namespace {

/// Estimated memory of a key and its value, including the hash table's node.
std::size_t entry_bytes(const std::string& key, std::size_t value_bytes) {
  constexpr std::size_t kNodeBytes = 64;
  return kNodeBytes + key.size() + value_bytes;
}

Bytes bytes_of(const std::string& text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

}  // namespace

/// Returns the reason to refuse a request, or an empty string.
std::string StoreState::refusal_reason(const StoreRequest& request) const {
  if (request.key.empty() || request.key.size() > kMaxKeyBytes)
    return fmt::format("a key of {} bytes; allowed are 1 to {}", request.key.size(), kMaxKeyBytes);
  if (request.value.size() > kMaxValueBytes)
    return fmt::format("{}: a value of {} bytes; allowed are {}", request.key, request.value.size(), kMaxValueBytes);
  std::size_t barrier_bytes = 0;
  if (request.op == StoreRequest::Op::barrier)  // one bit for each member; `amount` may still be invalid here
    barrier_bytes = static_cast<std::size_t>(std::clamp<std::int64_t>(request.amount, 0, kMaxMembers)) / 8;
  if (bytes_ + entry_bytes(request.key, request.value.size()) + barrier_bytes > kMaxBytes)
    return fmt::format("the store is full ({} bytes); values were set and not read", kMaxBytes);
  switch (request.op) {
    case StoreRequest::Op::set:
      if (entries_.contains(request.key)) return fmt::format("{} is set twice", request.key);
      if (request.amount < 0 || request.amount > kMaxMembers)
        return fmt::format("{}: invalid number of reads", request.key);
      return {};
    case StoreRequest::Op::barrier:
      if (request.amount < 1 || request.amount > max_members_ || request.member < 0 || request.member >= request.amount)
        return fmt::format("{}: invalid member {} of {}", request.key, request.member, request.amount);
      return {};
    default: return {};
  }
}

std::vector<StoreReply> StoreState::handle_request(std::uint64_t client, StoreRequest request) {
  std::vector<StoreReply> replies;
  if (const std::string reason = refusal_reason(request); !reason.empty()) {
    replies.push_back({client, request.number, StoreReply::Kind::refused, bytes_of(reason)});
    return replies;
  }
  switch (request.op) {
    case StoreRequest::Op::set: set(client, request, replies); break;
    case StoreRequest::Op::get: get(Waiter{client, request.number, request.member}, request.key, replies); break;
    case StoreRequest::Op::barrier: arrive_at_barrier(client, request, replies); break;
    case StoreRequest::Op::missing:
      replies.push_back({client, request.number, StoreReply::Kind::done, missing_members(request.key)});
      break;
  }
  return replies;
}

/// Returns the numbers of the members that have not arrived at a barrier. Empty if there is no such barrier.
Bytes StoreState::missing_members(const std::string& key) const {
  MessageWriter missing;
  const auto barrier = barriers_.find(key);
  if (barrier == barriers_.end()) return {};
  const std::vector<bool>& has_arrived = barrier->second.has_arrived;
  for (std::size_t member = 0; member < has_arrived.size(); ++member)
    if (!has_arrived[member]) missing.add(static_cast<std::int32_t>(member));
  return missing.bytes();
}

void StoreState::set(std::uint64_t client, StoreRequest& request, std::vector<StoreReply>& replies) {
  replies.push_back({client, request.number, StoreReply::Kind::done, {}});
  bytes_ += entry_bytes(request.key, request.value.size());
  entries_.emplace(request.key, Entry{std::move(request.value), request.amount});
  const auto waiters_of_key = waiters_.find(request.key);
  if (waiters_of_key == waiters_.end()) return;
  const auto waiters = std::move(waiters_of_key->second);
  waiters_.erase(waiters_of_key);
  bytes_ -= waiters.size() * entry_bytes(request.key, 0);
  for (const Waiter& waiter : waiters) get(waiter, request.key, replies);
}

void StoreState::get(const Waiter& waiter, const std::string& key, std::vector<StoreReply>& replies) {
  const auto entry_of_key = entries_.find(key);
  if (entry_of_key == entries_.end()) {
    if (lost_members_.contains(waiter.member)) {  // no member will set the key: reply with an empty value
      replies.push_back({waiter.client, waiter.number, StoreReply::Kind::done, {}});
      return;
    }
    waiters_[key].push_back(waiter);
    bytes_ += entry_bytes(key, 0);
    return;
  }
  Entry& entry = entry_of_key->second;
  const bool is_last_read = entry.reads_left == 1;
  if (is_last_read) {
    bytes_ -= entry_bytes(key, entry.value.size());
    replies.push_back({waiter.client, waiter.number, StoreReply::Kind::done, std::move(entry.value)});
    entries_.erase(entry_of_key);
    return;
  }
  replies.push_back({waiter.client, waiter.number, StoreReply::Kind::done, entry.value});
  if (entry.reads_left > 0) --entry.reads_left;
}

void StoreState::arrive_at_barrier(std::uint64_t client, const StoreRequest& request,
                                   std::vector<StoreReply>& replies) {
  BarrierState& barrier = barriers_[request.key];
  const bool is_new = barrier.has_arrived.empty();
  if (is_new) {
    barrier.has_arrived.resize(static_cast<std::size_t>(request.amount));
    bytes_ += entry_bytes(request.key, barrier.has_arrived.size() / 8);
    if (is_of_whole_job(barrier))
      for (const std::int32_t member : lost_members_) mark_arrived(barrier, member);
  }
  const auto member = static_cast<std::size_t>(request.member);
  const bool is_count_equal = barrier.has_arrived.size() == static_cast<std::size_t>(request.amount);
  if (!is_count_equal || barrier.has_arrived[member]) {
    replies.push_back({client, request.number, StoreReply::Kind::refused,
                       bytes_of(fmt::format("{}: member {} of {} arrived twice, or member counts differ", request.key,
                                            request.member, request.amount))});
    return;
  }
  barrier.has_arrived[member] = true;
  barrier.waiters.push_back({client, request.number, request.member});
  ++barrier.arrived;
  if (answer_if_complete(request.key, barrier, replies)) barriers_.erase(request.key);
}

void StoreState::mark_arrived(BarrierState& barrier, std::int32_t member) {
  const auto index = static_cast<std::size_t>(member);
  if (!barrier.has_arrived[index]) ++barrier.arrived;
  barrier.has_arrived[index] = true;
}

bool StoreState::answer_if_complete(const std::string& key, const BarrierState& barrier,
                                    std::vector<StoreReply>& replies) {
  if (barrier.arrived < static_cast<int>(barrier.has_arrived.size())) return false;
  for (const Waiter& waiter : barrier.waiters)
    replies.push_back({waiter.client, waiter.number, StoreReply::Kind::done, {}});
  bytes_ -= entry_bytes(key, barrier.has_arrived.size() / 8);
  return true;
}

std::vector<StoreReply> StoreState::lose_members(std::int32_t first, std::int32_t count) {
  std::vector<StoreReply> replies;
  const auto is_lost = [&](const Waiter& waiter) { return waiter.member >= first && waiter.member < first + count; };
  for (std::int32_t member = first; member < first + count; ++member) lost_members_.insert(member);
  for (auto& [key, waiters] : waiters_) {
    for (const Waiter& waiter : waiters)
      if (is_lost(waiter)) replies.push_back({waiter.client, waiter.number, StoreReply::Kind::done, {}});
    bytes_ -= std::erase_if(waiters, is_lost) * entry_bytes(key, 0);
  }
  for (auto entry = barriers_.begin(); entry != barriers_.end();) {
    auto& [key, barrier] = *entry;
    if (is_of_whole_job(barrier))
      for (std::int32_t member = first; member < first + count; ++member) mark_arrived(barrier, member);
    entry = answer_if_complete(key, barrier, replies) ? barriers_.erase(entry) : std::next(entry);
  }
  return replies;
}

void StoreState::drop_client(std::uint64_t client) {
  const auto is_client = [client](const Waiter& waiter) { return waiter.client == client; };
  for (auto& [key, waiters] : waiters_) bytes_ -= std::erase_if(waiters, is_client) * entry_bytes(key, 0);
  for (auto& [key, barrier] : barriers_) std::erase_if(barrier.waiters, is_client);
}

}  // namespace busbw
