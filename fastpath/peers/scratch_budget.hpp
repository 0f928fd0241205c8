#pragma once
// Budget of scratch memory on each GPU for all communicators of this process together.
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace busbw::fastpath {

/// Budget of scratch memory for each GPU. Thread-safe. Must outlive its reservations.
class ScratchBudget {
 public:
  explicit ScratchBudget(std::size_t bytes_per_gpu) : bytes_per_gpu_(bytes_per_gpu) {}
  ScratchBudget(const ScratchBudget&) = delete;
  ScratchBudget& operator=(const ScratchBudget&) = delete;

  /// Reserved bytes of a GPU's budget. The destructor releases them.
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
    /// Releases the bytes above `bytes`.
    void shrink_to(std::size_t bytes);
    /// Keeps the bytes reserved until the process ends.
    void leak() noexcept { budget_ = nullptr; }

   private:
    friend class ScratchBudget;
    Reservation(ScratchBudget* budget, int device, std::size_t bytes)
        : budget_(budget), device_(device), bytes_(bytes) {}

    ScratchBudget* budget_ = nullptr;
    int device_ = 0;
    std::size_t bytes_ = 0;
  };

  /// Calls `bytes_to_reserve` with the unreserved bytes of the GPU, and reserves the returned number of bytes, at most
  /// all unreserved ones. Holds the lock during the call, so no other reservation comes between.
  Reservation reserve(int device, const std::function<std::size_t(std::size_t unreserved_bytes)>& bytes_to_reserve);

 private:
  std::size_t bytes_per_gpu_;
  std::mutex mutex_;
  std::map<int, std::size_t> reserved_bytes_;  // by CUDA device
};

}  // namespace busbw::fastpath
