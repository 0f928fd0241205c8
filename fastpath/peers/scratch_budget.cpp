#include "fastpath/peers/scratch_budget.hpp"

#include <algorithm>

namespace busbw::fastpath {

void ScratchBudget::Reservation::shrink_to(std::size_t bytes) {
  if (budget_ == nullptr || bytes >= bytes_) return;
  const std::lock_guard lock(budget_->mutex_);
  budget_->taken_bytes_[device_] -= bytes_ - bytes;
  bytes_ = bytes;
}

ScratchBudget::Reservation ScratchBudget::reserve(int device,
                                                  const std::function<std::size_t(std::size_t left_bytes)>& wanted) {
  const std::lock_guard lock(mutex_);
  std::size_t& taken = taken_bytes_[device];
  const std::size_t left = bytes_ - taken;
  const std::size_t bytes = std::min(wanted(left), left);
  taken += bytes;
  return Reservation(this, device, bytes);
}

}  // namespace busbw::fastpath
