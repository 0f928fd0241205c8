#include "memory.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "broken.hpp"

namespace busbw::fastpath::model {

Memory::Memory(const Program& program) : program_(program), cells_(0) {
  for (const Kernel& kernel : program.kernels)
    if (is_direct(kernel.task)) cells_ = std::max(cells_, to_index(kernel.cells()));
}

Contents Memory::start() const {
  const std::size_t ranks = to_index(program_.ranks);
  if (cells_ == 0) return {};
  return {std::vector<int>(ranks, -1), std::vector<std::uint64_t>(ranks * 2 * ranks * cells_), {}};
}

std::size_t Memory::at(int rank, bool is_output, const CellPosition& place) const {
  const std::size_t ranks = to_index(program_.ranks);
  const std::size_t buffer = to_index(rank) * 2 + (is_output ? 1 : 0);
  return (buffer * ranks + to_index(place.first)) * cells_ + static_cast<std::size_t>(place.second);
}

std::size_t Memory::input_at(int kernel, int rank, const CellPosition& place) const {
  const Kernel& one = program_.kernels[to_index(kernel)];
  if (!one.in_place) return at(rank, false, place);
  // In place, the rank's own part is inside of the buffer for all ranks' parts.
  if (one.task == Task::all_gather_direct) return at(rank, true, {rank, place.second});
  if (one.task == Task::reduce_scatter_direct && place.first == rank) return at(rank, true, {0, place.second});
  return at(rank, one.task == Task::all_reduce_direct, place);
}

void Memory::begin(Contents& contents, int kernel, int rank) const {
  contents.inside[to_index(rank)] = kernel;
  for (std::int64_t index = 0; index < program_.kernels[to_index(kernel)].cells(); ++index)
    for (const auto& [place, value] : input_of(program_, kernel, rank, index))
      contents.words[input_at(kernel, rank, place)] = value;
}

std::uint64_t Memory::read(const Contents& contents, int kernel, int rank, const CellPosition& place) const {
  if (contents.inside[to_index(rank)] != kernel)
    throw Broken(fmt::format("rank {}'s input is read while it is not inside kernel {}", rank, kernel));
  return contents.words[input_at(kernel, rank, place)];
}

void Memory::write(Contents& contents, const Write& write) const {
  if (write.rank == write.from) return put(contents, write);
  contents.under_way.insert(std::ranges::upper_bound(contents.under_way, write), write);
}

bool Memory::is_under_way(const Contents& contents, int rank, int block) const {
  return std::ranges::any_of(contents.under_way,
                             [&](const Write& one) { return one.from == rank && one.block == block; });
}

void Memory::deliver(Contents& contents, std::size_t which) const {
  put(contents, contents.under_way[which]);
  contents.under_way.erase(contents.under_way.begin() + static_cast<std::ptrdiff_t>(which));
}

void Memory::put(Contents& contents, const Write& write) const {
  if (contents.inside[to_index(write.rank)] != write.kernel)
    throw Broken(fmt::format("rank {}'s output is written while it is not inside kernel {}", write.rank, write.kernel));
  contents.words[at(write.rank, true, write.place)] = write.value;
}

void Memory::end(Contents& contents, int kernel, int rank) const {
  for (std::int64_t index = 0; index < program_.kernels[to_index(kernel)].cells(); ++index)
    for (const auto& [place, value] : expected_output(program_, kernel, rank, index))
      if (contents.words[at(rank, true, place)] != value)
        throw Broken(fmt::format("rank {}: kernel {} ended without the right value in slice {}, cell {} of its output",
                                 rank, kernel, place.first, place.second));
  contents.inside[to_index(rank)] = -1;
  const auto first = contents.words.begin() + static_cast<std::ptrdiff_t>(at(rank, false, {0, 0}));
  std::fill_n(first, 2 * to_index(program_.ranks) * cells_, 0);
}

std::string Memory::text(const Write& write) {
  return fmt::format("what rank {}'s block {} wrote comes to rank {}: slice {}, cell {}", write.from, write.block,
                     write.rank, write.place.first, write.place.second);
}

}  // namespace busbw::fastpath::model
