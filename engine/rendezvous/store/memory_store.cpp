#include "rendezvous/store/memory_store.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "rendezvous/store/store_replies.hpp"

namespace busbw {

Bytes MemoryStore::send_and_wait(StoreRequest request) {
  std::unique_lock lock(mutex_);
  if (failure_) throw JobAborted();
  const StoreRequest original = request;
  const std::uint32_t number = request.number = next_number_++;
  const auto handle = [&](StoreRequest pending) {
    for (StoreReply& reply : state_.handle_request(0, std::move(pending))) replies_[reply.number] = std::move(reply);
    changed_.notify_all();
  };
  handle(std::move(request));
  const bool is_answered = changed_.wait_for(lock, std::chrono::duration<double>(limit_s_),
                                             [&] { return failure_ || replies_.contains(number); });
  if (failure_) throw JobAborted();
  if (is_answered) return require_value(replies_.extract(number).mapped());
  StoreRequest missing{StoreRequest::Op::missing, next_number_++, original.key, {}, 0, 0};
  const std::uint32_t missing_number = missing.number;
  handle(std::move(missing));
  throw wait_timeout_error(original, require_value(replies_.extract(missing_number).mapped()), limit_s_);
}

void MemoryStore::set(const std::string& key, std::span<const std::byte> value, int reads) {
  send_and_wait({StoreRequest::Op::set, 0, key, {value.begin(), value.end()}, reads, 0});
}

Bytes MemoryStore::get(const std::string& key) { return send_and_wait({StoreRequest::Op::get, 0, key, {}, 0, 0}); }

std::vector<Bytes> MemoryStore::get_all(std::span<const std::string> keys) {
  std::vector<Bytes> values;
  for (const std::string& key : keys) values.push_back(get(key));
  return values;
}

std::int64_t MemoryStore::add(const std::string& key, std::int64_t amount) {
  return decode_sum(send_and_wait({StoreRequest::Op::add, 0, key, {}, amount, 0}));
}

void MemoryStore::barrier(const std::string& key, int member, int members) {
  send_and_wait({StoreRequest::Op::barrier, 0, key, {}, members, member});
}

void MemoryStore::abort(const Failure& failure) noexcept {
  const std::scoped_lock lock(mutex_);
  if (!failure_) failure_ = failure;
  changed_.notify_all();
}

std::optional<Failure> MemoryStore::failure() {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

}  // namespace busbw
