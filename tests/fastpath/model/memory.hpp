#pragma once
// The buffers that a program gives to its direct kernels: memory that peers read and write.
//
// A buffer is the program's, but for the time in which its rank is inside the kernel that it was given to: outside of
// it nobody else may read it, and nothing may arrive in it. What a rank writes to a peer is under way until it is
// delivered, at any time later and in any order; what it writes into its own buffers is there at once, as the end of
// its kernel sees to that. A read is of what is there at that moment.
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
  int rank = 0;  ///< whose output it is
  Place place;
  std::uint64_t value = 0;
  int from = 0;   ///< the rank that writes
  int block = 0;  ///< which of its blocks

  auto operator<=>(const Write&) const = default;
};

/// What is in memory: a part of the state.
struct Contents {
  std::vector<int> inside;           ///< the direct kernel that each rank is inside of, or -1
  std::vector<std::uint64_t> words;  ///< all ranks' inputs and outputs; 0: nothing there
  std::vector<Write> under_way;      ///< sorted, so that equal states are alike
};

class Memory {
 public:
  explicit Memory(const Program& program);

  Contents start() const;
  /// A rank's first agent begins a kernel: the program has left its input there.
  void begin(Contents& contents, int kernel, int rank) const;
  /// Of the input of a rank. Throws Broken where that is not inside the kernel.
  std::uint64_t read(const Contents& contents, int kernel, int rank, const Place& place) const;
  void write(Contents& contents, const Write& write) const;
  /// Whether something that this block has written is under way.
  bool is_under_way(const Contents& contents, int rank, int block) const;
  /// One of those under way arrives. Throws Broken where the receiver is not inside the kernel.
  void deliver(Contents& contents, std::size_t which) const;
  /// A rank's kernel has ended, and the program looks at its output. Throws Broken where that is not right.
  void end(Contents& contents, int kernel, int rank) const;

  static std::string text(const Write& write);

 private:
  std::size_t input_at(int kernel, int rank, const Place& place) const;
  std::size_t at(int rank, bool is_output, const Place& place) const;
  void put(Contents& contents, const Write& write) const;

  const Program& program_;
  std::size_t cells_;  // of a slice, at most; 0 where no kernel is direct
};

}  // namespace busbw::fastpath::model
