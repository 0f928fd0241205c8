#pragma once
// The value of --fault: a deliberate fault of one rank, for tests of the error detection.
#include <cstdint>
#include <string_view>

#include "values/phase.hpp"

namespace busbw {

/// One fault of one rank. The kind decides which members are used.
struct Fault {
  enum class Kind {
    delay,    // the rank sleeps before every operation
    flip,     // after every operation of the check phase, a bit of the rank's result is flipped
    overrun,  // after every operation of the check phase, the byte after the rank's result is changed
    die,      // the rank's process is killed when the rank enters the phase
    hang,     // the rank hangs forever when it enters the phase, and ignores aborts
  };
  Kind kind = Kind::delay;
  int rank = 0;                 // world rank: number in the job
  std::uint64_t delay_us = 0;   // delay
  std::uint64_t index = 0;      // flip: element of the result
  int bit = 0;                  // flip: bit of that element, 0 is the lowest bit
  Phase phase = Phase::timing;  // die, hang
};

/// Parses "delay:rank=1,us=500", "flip:rank=1,index=7,bit=3", "overrun:rank=1", "die:rank=1,phase=warmup" or
/// "hang:rank=1,phase=timing". Throws UsageError with the allowed forms.
Fault parse_fault(std::string_view text);

}  // namespace busbw
