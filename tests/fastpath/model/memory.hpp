#pragma once
// Model of the buffers of direct kernels: memory that peers read and write.
//
// Peers may access a buffer only while its rank is inside the kernel. At other times the buffer belongs to the program:
// no peer may read it, and no write may arrive. A write to a peer is under way until it is delivered, at any later time
// and in any order. A write into a rank's own buffer is visible at once, because the end of the kernel ensures that. A
// read returns the present content.
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "program.hpp"

namespace busbw::fastpath::model {

/// A write to a peer's output.
struct Write {
  int kernel = 0;
  int rank = 0;  ///< rank of the output
  CellPosition place;
  std::uint64_t value = 0;
  int from = 0;   ///< the rank that writes
  int block = 0;  ///< the block that writes

  auto operator<=>(const Write&) const = default;
};

/// Contents of the memory, as a part of the state.
struct Contents {
  std::vector<int> inside;           ///< direct kernel that each rank is in, or -1
  std::vector<std::uint64_t> words;  ///< all ranks' inputs and outputs; 0: nothing there
  std::vector<Write> under_way;      ///< sorted, so that equal states compare equal
};

/// Rules of the memory for one program. Operates on Contents.
class Memory {
 public:
  explicit Memory(const Program& program);

  Contents start() const;
  /// Fills a rank's input when its first agent begins a kernel.
  void begin(Contents& contents, int kernel, int rank) const;
  /// Reads from the input of a rank. Throws Broken if that rank is not inside the kernel.
  std::uint64_t read(const Contents& contents, int kernel, int rank, const CellPosition& place) const;
  void write(Contents& contents, const Write& write) const;
  /// True if a write of this block is under way.
  bool is_under_way(const Contents& contents, int rank, int block) const;
  /// Delivers a write. Throws Broken if the receiving rank is not inside the kernel.
  void deliver(Contents& contents, std::size_t which) const;
  /// Ends a rank's kernel and checks its output. Throws Broken if the output is wrong.
  void end(Contents& contents, int kernel, int rank) const;

  static std::string text(const Write& write);

 private:
  std::size_t input_at(int kernel, int rank, const CellPosition& place) const;
  std::size_t at(int rank, bool is_output, const CellPosition& place) const;
  void put(Contents& contents, const Write& write) const;

  const Program& program_;
  std::size_t cells_;  // maximum number of cells of a slice; 0 if no kernel is direct
};

}  // namespace busbw::fastpath::model
