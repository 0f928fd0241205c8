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
  explicit ScratchBudget(std::size_t bytes_of_each_gpu) : bytes_(bytes_of_each_gpu) {}
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
    /// Keeps the bytes reserved forever.
    void leak() noexcept { budget_ = nullptr; }

   private:
    friend class ScratchBudget;
    Reservation(ScratchBudget* budget, int device, std::size_t bytes)
        : budget_(budget), device_(device), bytes_(bytes) {}

    ScratchBudget* budget_ = nullptr;
    int device_ = 0;
    std::size_t bytes_ = 0;
  };

  /// Reserves bytes of a GPU. `wanted` gets the number of bytes left and returns the number to reserve, which is
  /// limited to the bytes left.
  Reservation reserve(int device, const std::function<std::size_t(std::size_t left_bytes)>& wanted);

 private:
  std::size_t bytes_;
  std::mutex mutex_;
  std::map<int, std::size_t> taken_bytes_;  // by GPU
};

}  // namespace busbw::fastpath
