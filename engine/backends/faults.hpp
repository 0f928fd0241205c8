#pragma once
// Faults made on purpose, so that tests can see them caught: a rank that is slow, computes wrong, writes where it must
// not, dies or hangs.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "values/phase.hpp"

namespace busbw {

/// One fault of one rank. Which members matter depends on the kind.
struct Fault {
  enum class Kind {
    delay,    // sleeps before every operation
    flip,     // flips a bit of its result after every operation of the check phase
    overrun,  // changes the byte after its result after every operation of the check phase
    die,      // kills its process on entering the phase
    hang,     // does nothing any more on entering the phase, deaf to aborts
  };
  Kind kind = Kind::delay;
  int rank = 0;                 // in the whole job
  std::uint64_t delay_us = 0;   // delay
  std::uint64_t index = 0;      // flip: element of the result
  int bit = 0;                  // flip: bit of that element, 0 is the lowest
  Phase phase = Phase::timing;  // die, hang
};
using Faults = std::vector<Fault>;

/// From "delay:rank=1,us=500", "flip:rank=1,index=7,bit=3", "overrun:rank=1", "die:rank=1,phase=warmup" or
/// "hang:rank=1,phase=timing". Throws UsageError naming what is allowed.
Fault parse_fault(std::string_view text);
Faults parse_faults(std::span<const std::string> texts);

/// Throws UsageError when a fault is of a rank that a job of `ranks` does not have.
void require_ranks(std::span<const Fault> faults, int ranks);

/// Makes `world_rank` die or hang if one of the faults says so for `phase`.
void trigger_faults(std::span<const Fault> faults, Phase phase, int world_rank);

/// The faults of one rank, as its operations meet them.
class RankFaults {
 public:
  RankFaults(std::span<const Fault> all, int world_rank);

  void enter(Phase phase);
  void before_operation() const;
  /// No result is changed from here on until `end_steps`: others would be sent what is wrong with it.
  void begin_steps() { in_steps_ = true; }
  void end_steps() { in_steps_ = false; }
  /// Whether `after_operation` would change a result now.
  bool corrupts_results() const;
  /// `result`: what the operation wrote for this rank, in elements of `element_bytes`; empty where it wrote nothing,
  /// and then nothing is changed. Nor is an element or a bit that the result does not have.
  void after_operation(std::span<std::byte> result, std::size_t element_bytes);

 private:
  void overrun(std::byte* end);

  Faults mine_;
  int world_rank_;
  Phase phase_ = Phase::rendezvous;
  bool in_steps_ = false;
  std::byte* overrun_at_ = nullptr;
  std::byte overrun_with_{};
};

/// The memory from the first byte received to the last: an exchange's result, as faults see it.
std::span<std::byte> result_of(std::span<const Transfer> recvs, std::size_t element_bytes);

}  // namespace busbw
