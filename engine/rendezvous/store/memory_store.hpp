#pragma once
// A rendezvous store in this process's memory, for members that are threads.
#include <condition_variable>
#include <map>
#include <mutex>

#include "rendezvous/store/store.hpp"
#include "rendezvous/store/store_state.hpp"

namespace busbw {

/// One object is shared by all members and called from their threads.
class MemoryStore final : public Store {
 public:
  /// `limit_s`: longest wait in seconds.
  explicit MemoryStore(double limit_s) : limit_s_(limit_s) {}

  void set(const std::string& key, std::span<const std::byte> value, int reads = 0) override;
  Bytes get(const std::string& key) override;
  std::vector<Bytes> get_all(std::span<const std::string> keys) override;
  std::int64_t add(const std::string& key, std::int64_t amount) override;
  void barrier(const std::string& key, int member, int members) override;
  void abort(const Failure& failure) noexcept override;
  std::optional<Failure> failure() override;

 private:
  /// Executes a request and waits for its reply, at most `limit_s`. Returns the value in the reply.
  Bytes send_and_wait(StoreRequest request);

  std::mutex mutex_;
  std::condition_variable changed_;  // a reply was added, or the job was aborted
  StoreState state_;
  std::map<std::uint32_t, StoreReply> replies_;  // by request number
  std::uint32_t next_number_ = 0;
  std::optional<Failure> failure_;
  double limit_s_;
};

}  // namespace busbw
