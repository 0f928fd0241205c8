#pragma once
// Standard output for the program alone, where other programs read it line by line.

namespace busbw {

/// A descriptor of standard output that only its caller knows. What anybody else prints there from now on, as NCCL does
/// its log (in pieces that end anywhere), goes to standard error. Standard output itself where there is no room for
/// another.
int claim_stdout();

}  // namespace busbw
