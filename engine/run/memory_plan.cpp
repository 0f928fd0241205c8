// Computes the largest size that fits into the free memory, and the memory of the samples. Writes the messages.
#include "run/memory_plan.hpp"

#include <fmt/format.h>

#include <limits>

#include "common/support/error.hpp"
#include "common/values/quantity.hpp"
#include "measure/buffers.hpp"

namespace busbw {
namespace {

constexpr double kUsableShare = 0.9;  // of the free memory; the rest is for other programs and allocations
constexpr std::uint64_t kReducedMultipleBytes = 4096;  // a reduced size is a multiple of this
// On the way of a sample from a rank's clock to the row, up to eight copies exist at the same time, counting both
// placements. Start delays take up to four more: the list, twice its size while it grows, and a sorted copy.
constexpr int kMaxSampleCopies = 8;
constexpr int kMaxDelayCopies = 4;
constexpr double kSampleBytes = sizeof(double) * (kMaxSampleCopies + kMaxDelayCopies);
// comm_ops also keeps the issue times of all-reduces, and for its timers a vector of about 56 bytes per call. A
// measured run needed 1.7 times `kSampleBytes` for each sample.
constexpr double kLifecycleSampleBytes = 1.75 * kSampleBytes;
// comm_ops keeps the samples of all calls of a test: the all-reduces of -W, and up to four others.
constexpr double kOtherLifecycleCalls = 4;

/// Converts to whole bytes, limited to the largest 64-bit number.
std::uint64_t whole_bytes(double bytes) {
  constexpr double kFirstTooLarge = 0x1p64;
  return bytes >= kFirstTooLarge ? std::numeric_limits<std::uint64_t>::max() : static_cast<std::uint64_t>(bytes);
}

std::string reduced_note(std::uint64_t max_bytes) {
  return fmt::format("Reducing maxBytes to {} due to memory limitation", max_bytes);
}

}  // namespace

MemoryPlan plan_memory(const RunSettings& settings, int ranks, std::size_t available_bytes, std::size_t work_bytes,
                       const std::string& least_free_device) {
  const auto needed_bytes = [&](std::uint64_t max_bytes) {
    return 2.0 * ranks * static_cast<double>(buffer_bytes(max_bytes, settings.unalign_elements)) +
           static_cast<double>(work_bytes);
  };
  const double usable_bytes = kUsableShare * static_cast<double>(available_bytes);
  if (needed_bytes(settings.max_bytes) <= usable_bytes) return {settings.max_bytes, {}};

  const std::string situation = fmt::format(
      "2 buffers of {} for each of {} ranks need {}; of {} free memory{}, {} may be used",
      size_text(settings.max_bytes), ranks, size_text(whole_bytes(needed_bytes(settings.max_bytes))),
      size_text(available_bytes), least_free_device.empty() ? "" : " (counted by " + least_free_device + ")",
      size_text(whole_bytes(usable_bytes)));
  const double bytes_without_data = needed_bytes(0);  // guards, shifts of -u and work memory
  const double bytes_per_buffer = (usable_bytes - bytes_without_data) / (2.0 * ranks);
  std::uint64_t fitting_bytes = 0;
  if (bytes_per_buffer > 0)
    fitting_bytes = static_cast<std::uint64_t>(bytes_per_buffer) / kReducedMultipleBytes * kReducedMultipleBytes;
  // Only a range of sizes is reduced. A list of sizes (--sizes) is measured completely or refused.
  if (fitting_bytes < settings.min_bytes || !settings.sizes_bytes.empty())
    throw EnvironmentError(
        fmt::format("{}: use sizes up to {} (-e, --sizes) or fewer ranks", situation, size_text(fitting_bytes)));
  return {fitting_bytes, {reduced_note(fitting_bytes), situation}};
}

MemoryPlan limit_plan(MemoryPlan plan, std::uint64_t agreed_bytes) {
  if (agreed_bytes >= plan.max_bytes) return plan;
  return {agreed_bytes, {reduced_note(agreed_bytes), "another process does not have memory for more"}};
}

void require_sample_memory(const RunSettings& settings, int ranks, std::size_t available_bytes) {
  const double samples_per_iteration =  // of one rank
      settings.lifecycle ? settings.lifecycle->work_iterations + kOtherLifecycleCalls : 1;
  const double sample_bytes_of_all_ranks = (settings.lifecycle ? kLifecycleSampleBytes : kSampleBytes) * ranks;
  const double iteration_bytes = samples_per_iteration * sample_bytes_of_all_ranks;
  const double needed_bytes = iteration_bytes * settings.iterations;
  const double usable_bytes = kUsableShare * static_cast<double>(available_bytes);
  if (needed_bytes <= usable_bytes) return;
  const std::string situation = fmt::format("the samples of {} ranks need {}; of {} free memory, {} may be used", ranks,
                                            size_text(whole_bytes(needed_bytes)), size_text(available_bytes),
                                            size_text(whole_bytes(usable_bytes)));
  const std::uint64_t fitting_iterations = whole_bytes(usable_bytes / iteration_bytes);
  if (settings.lifecycle && fitting_iterations == 0) {
    const double fitting_work = usable_bytes / (sample_bytes_of_all_ranks * settings.iterations) - kOtherLifecycleCalls;
    throw EnvironmentError(
        fmt::format("-W {} (--work-iterations): {}; use {}", settings.lifecycle->work_iterations, situation,
                    fitting_work >= 1 ? fmt::format("-W up to {}, or fewer ranks", whole_bytes(fitting_work))
                                      : "a smaller -W, fewer iterations (-i) or fewer ranks"));
  }
  throw EnvironmentError(fmt::format("{}: {}; use up to {} iterations or fewer ranks",
                                     settings.lifecycle ? fmt::format("-i {} (--iterations)", settings.iterations)
                                                        : fmt::format("-n {} (--iters)", settings.iterations),
                                     situation, fitting_iterations));
}

}  // namespace busbw
