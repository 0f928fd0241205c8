#include "rendezvous/store/memory_store.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "rendezvous/store/store_replies.hpp"

namespace busbw {

Bytes MemoryStore::send_and_wait(StoreRequest request) {
  std::unique_lock lock(mutex_);
  if (failure_) throw JobAborted();
  const std::uint32_t number = next_number_++;
  request.number = number;
  const StoreRequest timed_out_request = request;  // for the error on timeout
  const auto execute = [&](StoreRequest pending) {
    for (StoreReply& reply : state_.handle_request(0, std::move(pending))) replies_[reply.number] = std::move(reply);
    changed_.notify_all();
  };
  execute(std::move(request));
  const bool is_answered = changed_.wait_for(lock, std::chrono::duration<double>(limit_s_),
                                             [&] { return failure_ || replies_.contains(number); });
  if (failure_) throw JobAborted();
  if (is_answered) return require_value(replies_.extract(number).mapped());
  StoreRequest missing{.op = StoreRequest::Op::missing, .number = next_number_++, .key = timed_out_request.key};
  const std::uint32_t missing_number = missing.number;
  execute(std::move(missing));
  throw wait_timeout_error(timed_out_request, require_value(replies_.extract(missing_number).mapped()), limit_s_);
}

void MemoryStore::set(const std::string& key, std::span<const std::byte> value, int reads) {
  send_and_wait({.op = StoreRequest::Op::set, .key = key, .value = {value.begin(), value.end()}, .amount = reads});
}

Bytes MemoryStore::get(const std::string& key) { return send_and_wait({.op = StoreRequest::Op::get, .key = key}); }

std::vector<Bytes> MemoryStore::get_all(std::span<const std::string> keys) {
  std::vector<Bytes> values;
  for (const std::string& key : keys) values.push_back(get(key));
  return values;
}

std::int64_t MemoryStore::add(const std::string& key, std::int64_t amount) {
  return decode_sum(send_and_wait({.op = StoreRequest::Op::add, .key = key, .amount = amount}));
}

void MemoryStore::barrier(const std::string& key, int member, int members) {
  send_and_wait({.op = StoreRequest::Op::barrier, .key = key, .amount = members, .member = member});
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
