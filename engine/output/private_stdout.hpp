#pragma once
// Reserves standard output for the program's own lines, because other programs read it line by line.

namespace busbw {

/// Returns a private descriptor of standard output and redirects descriptor 1 to stderr. Otherwise NCCL's log, which is
/// not written in whole lines, would break record lines. Returns standard output itself if no descriptor is free.
int claim_stdout();

}  // namespace busbw
