// Operations of a rank on its own memory: copies for the collectives, and the matrix product of --with.
#include "backends/host/host_memory_communicator.hpp"

#include <algorithm>
#include <cstring>

namespace busbw {

void HostMemoryCommunicator::compute_matrix_square(float* product, const float* matrix, std::size_t order) {
  std::fill_n(product, order * order, 0.0F);
  for (std::size_t row = 0; row < order; ++row)
    for (std::size_t inner = 0; inner < order; ++inner)
      for (std::size_t column = 0; column < order; ++column)
        product[row * order + column] += matrix[row * order + inner] * matrix[inner * order + column];
}

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (to != from && bytes != 0) std::memcpy(to, from, bytes);
}

}  // namespace busbw
