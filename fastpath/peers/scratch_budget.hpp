#pragma once
// The most scratch memory that this process's communicators may hold of each GPU, together.
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace busbw::fastpath {

/// For any number of threads. It outlives its shares.
class ScratchBudget {
 public:
  explicit ScratchBudget(std::size_t bytes_of_each_gpu) : bytes_(bytes_of_each_gpu) {}
  ScratchBudget(const ScratchBudget&) = delete;
  ScratchBudget& operator=(const ScratchBudget&) = delete;

  /// Bytes of a GPU that nobody else may have, until it ends.
  class Reservation {
   public:
    Reservation() = default;
    Reservation(Reservation&& other) noexcept { *this = std::move(other); }
    Reservation& operator=(Reservation&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(device_, other.device_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Reservation() { shrink_to(0); }

    std::size_t bytes() const { return bytes_; }
    /// Gives back what is above.
    void shrink_to(std::size_t bytes);
    /// Leaves them taken for good.
    void leak() noexcept { budget_ = nullptr; }

   private:
    friend class ScratchBudget;
    Reservation(ScratchBudget* budget, int device, std::size_t bytes) : budget_(budget), device_(device), bytes_(bytes) {}

    ScratchBudget* budget_ = nullptr;
    int device_ = 0;
    std::size_t bytes_ = 0;
  };

  /// As much as `wanted` says when it hears how many bytes are left on this GPU, and no more than these.
  Reservation reserve(int device, const std::function<std::size_t(std::size_t left_bytes)>& wanted);

 private:
  std::size_t bytes_;
  std::mutex mutex_;
  std::map<int, std::size_t> taken_bytes_;  // by GPU
};

}  // namespace busbw::fastpath
