#pragma once
// The most scratch memory that this process's communicators may hold of each GPU, together.
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace busbw::fastpath {

/// For any number of threads. It outlives its shares.
class Budget {
 public:
  explicit Budget(std::size_t bytes_of_each_gpu) : bytes_(bytes_of_each_gpu) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  /// Bytes of a GPU that nobody else may have, until it ends.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept { *this = std::move(other); }
    Share& operator=(Share&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(device_, other.device_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Share() { keep(0); }

    std::size_t bytes() const { return bytes_; }
    /// Gives back what is above.
    void keep(std::size_t bytes);
    /// Leaves them taken for good.
    void give_up() noexcept { budget_ = nullptr; }

   private:
    friend class Budget;
    Share(Budget* budget, int device, std::size_t bytes) : budget_(budget), device_(device), bytes_(bytes) {}

    Budget* budget_ = nullptr;
    int device_ = 0;
    std::size_t bytes_ = 0;
  };

  /// As much as `wanted` says when it hears how many bytes are left on this GPU, and no more than these.
  Share claim(int device, const std::function<std::size_t(std::size_t left_bytes)>& wanted);

 private:
  std::size_t bytes_;
  std::mutex mutex_;
  std::map<int, std::size_t> taken_bytes_;  // by GPU
};

}  // namespace busbw::fastpath
