#pragma once
// Reserves standard output for the engine's own lines, because other programs read records from it (--records -).

namespace busbw {

/// Redirects descriptor 1 to stderr and returns a new descriptor of the original standard output. Otherwise NCCL's log,
/// which is not written in whole lines, would break record lines. Returns descriptor 1 itself if the redirection fails.
int claim_stdout();

}  // namespace busbw
