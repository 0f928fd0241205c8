#include "run/memory_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "common/support/error.hpp"
#include "common/values/quantity.hpp"
#include "measure/buffers.hpp"

namespace busbw {
namespace {

constexpr double kUsableShare = 0.9;
constexpr std::uint64_t kReducedToMultipleOf = 4096;
// A sample is a double. Between a rank's clock and the row it exists in up to eight places, counting both placements.
constexpr double kSampleBytes = 64;

/// Converts to whole bytes, limited to the largest 64-bit number.
std::uint64_t whole_bytes(double bytes) {
  constexpr double kTooMany = 0x1p64;
  return bytes >= kTooMany ? std::numeric_limits<std::uint64_t>::max() : static_cast<std::uint64_t>(bytes);
}

std::string reduced_note(std::uint64_t max_bytes) {
  return fmt::format("Reducing maxBytes to {} due to memory limitation", max_bytes);
}

}  // namespace

MemoryPlan plan_memory(const RunSettings& settings, int ranks, std::size_t available_bytes, std::size_t work_bytes,
                       const std::string& least_free_device) {
  const auto needed = [&](std::uint64_t max_bytes) {
    return 2.0 * ranks * static_cast<double>(buffer_bytes(max_bytes, settings.unalign_elements)) +
           static_cast<double>(work_bytes);
  };
  const double usable = kUsableShare * static_cast<double>(available_bytes);
  if (needed(settings.max_bytes) <= usable) return {settings.max_bytes, {}};

  const std::string situation = fmt::format(
      "2 buffers of {} for each of {} ranks need {}; of {} free memory{}, {} may be used",
      size_text(settings.max_bytes), ranks, size_text(whole_bytes(needed(settings.max_bytes))),
      size_text(available_bytes), least_free_device.empty() ? "" : " (counted by " + least_free_device + ")",
      size_text(whole_bytes(usable)));
  const double left = (usable - needed(0)) / (2.0 * ranks);
  const auto fits = left > 0 ? static_cast<std::uint64_t>(left) / kReducedToMultipleOf * kReducedToMultipleOf : 0;
  if (fits < settings.min_bytes || !settings.sizes_bytes.empty())
    throw EnvironmentError(
        fmt::format("{}: use sizes up to {} (-e, --sizes) or fewer ranks", situation, size_text(fits)));
  return {fits, {reduced_note(fits), situation}};
}

MemoryPlan limit_plan(MemoryPlan own, std::uint64_t agreed_bytes) {
  if (agreed_bytes >= own.max_bytes) return own;
  return {agreed_bytes, {reduced_note(agreed_bytes), "another process does not have memory for more"}};
}

void require_sample_memory(const RunSettings& settings, int ranks, std::size_t available_bytes) {
  const double needed = kSampleBytes * settings.iterations * ranks;
  const double usable = kUsableShare * static_cast<double>(available_bytes);
  if (needed <= usable) return;
  throw EnvironmentError(
      fmt::format("-n {} (--iters): the samples of {} ranks need {}; of {} free memory, {} may be used; use up "
                  "to {} iterations or fewer ranks",
                  settings.iterations, ranks, size_text(whole_bytes(needed)), size_text(available_bytes),
                  size_text(whole_bytes(usable)), whole_bytes(usable / (kSampleBytes * ranks))));
}

}  // namespace busbw
