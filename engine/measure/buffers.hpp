#pragma once
// Layout of a case in a rank's two buffers: guard, data, guard. A case is one size of one configuration. If the case is
// small, the data holds several regions of its size, and each iteration uses the next one.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/collective.hpp"

namespace busbw {

/// Size of the guards before and after the data of a case. No operation may write to them.
inline constexpr std::size_t kGuardBytes = 4096;

/// Size of a buffer for cases of up to `max_bytes`, shifted by `unalign_elements` elements of at most 8 bytes each.
constexpr std::size_t buffer_bytes(std::uint64_t max_bytes, int unalign_elements) {
  return kGuardBytes + 8 * static_cast<std::size_t>(unalign_elements) + max_bytes + kGuardBytes;
}

/// Regions of one case in one rank's buffers.
class CaseBuffers {
 public:
  /// `max_bytes`: maximum size of all regions together. At least one region is used, whatever its size.
  CaseBuffers(Communicator& communicator, const Shape& shape, Dtype dtype, std::uint64_t max_bytes,
              int unalign_elements)
      : send_(communicator.send_buffer().data() + kGuardBytes + unalign_elements * size_bytes(dtype)),
        recv_(communicator.recv_buffer().data() + kGuardBytes + unalign_elements * size_bytes(dtype)),
        rank_(communicator.rank()),
        element_bytes_(size_bytes(dtype)),
        shape_(shape),
        region_bytes_(std::max(shape.send_count, shape.recv_count) * element_bytes_),
        region_count_(region_bytes_ == 0 ? 1 : std::max<std::size_t>(1, max_bytes / region_bytes_)) {}

  /// Returns the arguments of iteration `iteration`. As in nccl-tests, iterations use the regions in turn: otherwise
  /// data would come from a cache, and races between iterations would stay unnoticed.
  CollectiveCall call(Placement placement, std::uint64_t iteration, Dtype dtype, Redop redop, int root) const {
    const std::size_t offset = region_bytes_ * (iteration % region_count_);
    return {.send = send_data(placement) + offset,
            .recv = recv_data(placement) + offset,
            .count = shape_.param_count,
            .dtype = dtype,
            .redop = redop,
            .root = root};
  }

  /// Start of the send data and of the result, in the region of iteration 0.
  std::byte* send_data(Placement placement) const {
    return placement == Placement::in_place ? recv_ + shape_.send_inplace_offset * rank_ * element_bytes_ : send_;
  }
  std::byte* recv_data(Placement placement) const {
    return placement == Placement::in_place ? recv_ + shape_.recv_inplace_offset * rank_ * element_bytes_ : recv_;
  }
  /// The larger of the bytes that an operation sends and receives: the size column.
  std::size_t region_bytes() const { return region_bytes_; }
  /// Whole region of iteration 0 in each buffer. In place, the receive region also holds the send data.
  std::span<std::byte> send_region() const { return {send_, shape_.send_count * element_bytes_}; }
  std::span<std::byte> recv_region(Placement placement) const {
    return {recv_, placement == Placement::in_place ? region_bytes_ : shape_.recv_count * element_bytes_};
  }

 private:
  std::byte* send_;
  std::byte* recv_;
  int rank_;
  std::size_t element_bytes_;
  Shape shape_;
  std::size_t region_bytes_;
  std::size_t region_count_;
};

}  // namespace busbw
