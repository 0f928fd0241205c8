#include "rendezvous/store/store_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "rendezvous/store/store.hpp"

namespace busbw {
namespace {

constexpr std::int64_t kMaxMembers = 1 << 24;

/// Estimated memory of a key and its value, including the hash table's node.
std::size_t entry_bytes(const std::string& key, std::size_t value_bytes) { return 64 + key.size() + value_bytes; }

Bytes bytes_of(const std::string& text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

}  // namespace

Bytes StoreRequest::packed() const {
  return MessageWriter()
      .add(op)
      .add(number)
      .add(key)
      .add(std::span<const std::byte>(value))
      .add(amount)
      .add(member)
      .bytes();
}

StoreRequest StoreRequest::unpack(std::span<const std::byte> bytes) {
  MessageReader reader(bytes);
  StoreRequest request;
  request.op = reader.take<Op>();
  request.number = reader.take<std::uint32_t>();
  request.key = reader.take_text();
  request.value = reader.take_bytes();
  request.amount = reader.take<std::int64_t>();
  request.member = reader.take<std::int32_t>();
  if (request.op > Op::missing) throw BrokenMessage();
  return request;
}

std::string StoreState::refusal(const StoreRequest& request) const {
  if (request.key.empty() || request.key.size() > Store::kMaxKeyBytes)
    return fmt::format("a key of {} bytes; allowed are 1 to {}", request.key.size(), Store::kMaxKeyBytes);
  if (request.value.size() > Store::kMaxValueBytes)
    return fmt::format("{}: a value of {} bytes; allowed are {}", request.key, request.value.size(),
                       Store::kMaxValueBytes);
  const std::size_t barrier_bytes =
      request.op == StoreRequest::Op::barrier
          ? static_cast<std::size_t>(std::clamp<std::int64_t>(request.amount, 0, kMaxMembers)) / 8
          : 0;
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

std::vector<StoreReply> StoreState::take(std::uint64_t client, StoreRequest request) {
  std::vector<StoreReply> answers;
  if (const std::string reason = refusal(request); !reason.empty()) {
    answers.push_back({client, request.number, StoreReply::Kind::refused, bytes_of(reason)});
    return answers;
  }
  switch (request.op) {
    case StoreRequest::Op::set: set(client, request, answers); break;
    case StoreRequest::Op::get: get({client, request.number}, request.key, answers); break;
    case StoreRequest::Op::barrier: arrive(client, request, answers); break;
    case StoreRequest::Op::add: {
      const auto [at, is_new] = sums_.try_emplace(request.key, 0);
      if (is_new) bytes_ += entry_bytes(request.key, 0);
      const std::int64_t sum = at->second += request.amount;
      answers.push_back({client, request.number, StoreReply::Kind::done, MessageWriter().add(sum).bytes()});
      break;
    }
    case StoreRequest::Op::missing: {
      MessageWriter missing;
      if (const auto found = barriers_.find(request.key); found != barriers_.end())
        for (std::size_t member = 0; member < found->second.has_arrived.size(); ++member)
          if (!found->second.has_arrived[member]) missing.add(static_cast<std::int32_t>(member));
      answers.push_back({client, request.number, StoreReply::Kind::done, missing.bytes()});
      break;
    }
  }
  return answers;
}

void StoreState::set(std::uint64_t client, StoreRequest& request, std::vector<StoreReply>& answers) {
  answers.push_back({client, request.number, StoreReply::Kind::done, {}});
  bytes_ += entry_bytes(request.key, request.value.size());
  entries_.emplace(request.key, Entry{std::move(request.value), request.amount});
  const auto waiting = waiting_.find(request.key);
  if (waiting == waiting_.end()) return;
  const auto all = std::move(waiting->second);
  waiting_.erase(waiting);
  bytes_ -= all.size() * entry_bytes(request.key, 0);
  for (const Waiter& waiter : all) get(waiter, request.key, answers);
}

void StoreState::get(const Waiter& waiter, const std::string& key, std::vector<StoreReply>& answers) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) {
    waiting_[key].push_back(waiter);
    bytes_ += entry_bytes(key, 0);
    return;
  }
  Entry& entry = found->second;
  if (entry.reads_left != 1) {
    answers.push_back({waiter.client, waiter.number, StoreReply::Kind::done, entry.value});
    if (entry.reads_left > 0) --entry.reads_left;
    return;
  }
  bytes_ -= entry_bytes(key, entry.value.size());
  answers.push_back({waiter.client, waiter.number, StoreReply::Kind::done, std::move(entry.value)});
  entries_.erase(found);
}

void StoreState::arrive(std::uint64_t client, const StoreRequest& request, std::vector<StoreReply>& answers) {
  BarrierState& barrier = barriers_[request.key];
  if (barrier.has_arrived.empty()) {
    barrier.has_arrived.resize(static_cast<std::size_t>(request.amount));
    bytes_ += entry_bytes(request.key, barrier.has_arrived.size() / 8);
  }
  const auto member = static_cast<std::size_t>(request.member);
  if (barrier.has_arrived.size() != static_cast<std::size_t>(request.amount) || barrier.has_arrived[member]) {
    answers.push_back({client, request.number, StoreReply::Kind::refused,
                       bytes_of(fmt::format("{}: member {} of {} arrived twice, or member counts differ", request.key,
                                            request.member, request.amount))});
    return;
  }
  barrier.has_arrived[member] = true;
  barrier.waiting.push_back({client, request.number});
  if (++barrier.arrived < static_cast<int>(barrier.has_arrived.size())) return;
  for (const Waiter& waiter : barrier.waiting)
    answers.push_back({waiter.client, waiter.number, StoreReply::Kind::done, {}});
  bytes_ -= entry_bytes(request.key, barrier.has_arrived.size() / 8);
  barriers_.erase(request.key);
}

void StoreState::forget(std::uint64_t client) {
  const auto is_client = [client](const Waiter& waiter) { return waiter.client == client; };
  for (auto& [key, waiting] : waiting_) bytes_ -= std::erase_if(waiting, is_client) * entry_bytes(key, 0);
  for (auto& [key, barrier] : barriers_) std::erase_if(barrier.waiting, is_client);
}

}  // namespace busbw
