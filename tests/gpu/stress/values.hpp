#pragma once
// Inputs of ranks and expected results: small whole numbers, exact in every type and in every order of additions.
#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stress {

enum class Kind { all_reduce, all_gather, reduce_scatter, broadcast, alltoall, pass_on };
inline constexpr int kKinds = 6;
const char* name(Kind kind);

std::size_t bytes_of(ncclDataType_t type);
const char* name(ncclDataType_t type);
const char* name(ncclRedOp_t op);

/// Values repeat with this period, a prime that no line, cell or slice divides.
inline constexpr std::size_t kPeriod = 1021;

/// Returns one period of a rank's input. `ranks` and `op` limit the values so that every result is exact.
std::vector<char> inputs(ncclDataType_t type, ncclRedOp_t op, std::uint32_t salt, int rank, int ranks);
/// Returns one period of the reduction over the inputs of all `ranks`, multiplied by `factor`.
std::vector<char> reduced(ncclDataType_t type, ncclRedOp_t op, std::uint32_t salt, const std::vector<int>& ranks,
                          double factor);

/// Writes the elements `from` to `from + count` of the repeated period.
void tile(char* to, const std::vector<char>& period, std::size_t element_bytes, std::size_t from, std::size_t count);

}  // namespace stress
