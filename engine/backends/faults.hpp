#pragma once
// Deliberate faults for tests of the error detection (--fault): a rank that is slow, computes wrong results, writes out
// of bounds, dies or hangs.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "values/phase.hpp"

namespace busbw {

/// One fault of one rank. The kind decides which members are used.
struct Fault {
  enum class Kind {
    delay,    // sleeps before every operation
    flip,     // flips a bit of its result after every operation of the check phase
    overrun,  // changes the byte after its result after every operation of the check phase
    die,      // kills its process on entering the phase
    hang,     // hangs forever on entering the phase and ignores aborts
  };
  Kind kind = Kind::delay;
  int rank = 0;                 // world rank: number in the job
  std::uint64_t delay_us = 0;   // delay
  std::uint64_t index = 0;      // flip: element of the result
  int bit = 0;                  // flip: bit of that element, 0 is the lowest bit
  Phase phase = Phase::timing;  // die, hang
};
using Faults = std::vector<Fault>;

/// Parses "delay:rank=1,us=500", "flip:rank=1,index=7,bit=3", "overrun:rank=1", "die:rank=1,phase=warmup" or
/// "hang:rank=1,phase=timing". Throws UsageError with the allowed forms.
Fault parse_fault(std::string_view text);
/// Parses each text with `parse_fault`.
Faults parse_faults(std::span<const std::string> texts);

/// Throws UsageError if a fault names a rank that a job of `ranks` ranks does not have.
void require_existing_ranks(std::span<const Fault> faults, int ranks);

/// Kills the process or hangs if `faults` has such a fault for `world_rank` in `phase`.
void trigger_faults(std::span<const Fault> faults, Phase phase, int world_rank);

/// The faults of one rank, applied to its operations.
class RankFaults {
 public:
  /// Selects the faults of `world_rank` from `all`, the faults of the job.
  RankFaults(std::span<const Fault> all, int world_rank);

  /// Enters a phase. May kill the process or hang.
  void enter(Phase phase);
  /// Sleeps if the rank has a delay.
  void before_operation() const;
  /// Results stay unchanged until `end_multi_step`, because later steps would send the wrong data to other ranks.
  void begin_multi_step() { in_multi_step_ = true; }
  void end_multi_step() { in_multi_step_ = false; }
  /// True if `after_operation` would change a result now.
  bool corrupts_results() const;
  /// Changes `result`, the memory that the operation wrote for this rank, in elements of `element_bytes`. Does nothing
  /// if the result is empty or does not contain the fault's element and bit.
  void after_operation(std::span<std::byte> result, std::size_t element_bytes);

 private:
  /// Changes the byte at `end`, unless it still has the value of the last such change.
  void change_byte_after(std::byte* end);

  Faults own_faults_;
  int world_rank_;
  Phase phase_ = Phase::rendezvous;
  bool in_multi_step_ = false;
  std::byte* overrun_byte_ = nullptr;  // byte that an overrun changed last
  std::byte overrun_value_{};          // and its new value
};

/// Memory from the first to the last byte that an exchange receives. Faults treat it as the result.
std::span<std::byte> result_of(std::span<const Transfer> recvs, std::size_t element_bytes);

}  // namespace busbw
