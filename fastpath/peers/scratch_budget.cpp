// Reserves and releases scratch memory of a GPU under one lock.
#include "fastpath/peers/scratch_budget.hpp"

#include <algorithm>

namespace busbw::fastpath {

void ScratchBudget::Reservation::shrink_to(std::size_t bytes) {
  if (budget_ == nullptr || bytes >= bytes_) return;
  const std::lock_guard lock(budget_->mutex_);
  budget_->reserved_bytes_[device_] -= bytes_ - bytes;
  bytes_ = bytes;
}

ScratchBudget::Reservation ScratchBudget::reserve(
    int device, const std::function<std::size_t(std::size_t unreserved_bytes)>& bytes_to_reserve) {
  const std::lock_guard lock(mutex_);
  std::size_t& reserved_bytes = reserved_bytes_[device];
  const std::size_t unreserved_bytes = bytes_per_gpu_ - reserved_bytes;
  const std::size_t bytes = std::min(bytes_to_reserve(unreserved_bytes), unreserved_bytes);
  reserved_bytes += bytes;
  return Reservation(this, device, bytes);
}

}  // namespace busbw::fastpath
