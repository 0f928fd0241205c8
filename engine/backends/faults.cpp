#include "backends/faults.hpp"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <functional>
#include <limits>
#include <string>

#include "common/support/error.hpp"

namespace busbw {
namespace {

constexpr std::string_view kAllowed =
    "use delay:rank=R,us=N, flip:rank=R,index=I,bit=B, overrun:rank=R, die:rank=R,phase=P or hang:rank=R,phase=P, "
    "where P "
    "is rendezvous, initialisation, warmup, timing, check or report";

/// Longest delay: one hour, so that a typing error does not look like a hang.
constexpr std::uint64_t kMaxDelayUs = 3'600'000'000;

struct FaultSyntax {
  std::string_view name;
  Fault::Kind kind;
  std::vector<std::string_view> keys;  // all are required
};

const std::vector<FaultSyntax>& kinds() {
  static const std::vector<FaultSyntax> all{{"delay", Fault::Kind::delay, {"rank", "us"}},
                                            {"flip", Fault::Kind::flip, {"rank", "index", "bit"}},
                                            {"overrun", Fault::Kind::overrun, {"rank"}},
                                            {"die", Fault::Kind::die, {"rank", "phase"}},
                                            {"hang", Fault::Kind::hang, {"rank", "phase"}}};
  return all;
}

/// The text of one --fault flag. Calling it throws the error for that text.
struct FaultText {
  std::string_view text;
  [[noreturn]] void operator()(const std::string& reason) const {
    throw UsageError(fmt::format("--fault {}: {}; {}", text, reason, kAllowed));
  }
};

std::uint64_t number(std::string_view key, std::string_view value, std::uint64_t max, const FaultText& refuse) {
  std::uint64_t result = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
  if (error != std::errc{} || end != value.data() + value.size() || result > max) {
    refuse(fmt::format("{}={} is not a whole number from 0 to {}", key, value, max));
  }
  return result;
}

Phase phase_of(std::string_view value, const FaultText& refuse) {
  const auto found = std::ranges::find_if(kPhases, [&](Phase phase) { return name(phase) == value; });
  if (found == kPhases.end()) refuse(fmt::format("'{}' is not a phase", value));
  return *found;
}

void set(Fault& fault, std::string_view key, std::string_view value, const FaultText& refuse) {
  if (key == "rank") fault.rank = static_cast<int>(number(key, value, std::numeric_limits<int>::max(), refuse));
  if (key == "us") fault.delay_us = number(key, value, kMaxDelayUs, refuse);
  if (key == "index") fault.index = number(key, value, std::numeric_limits<std::uint64_t>::max(), refuse);
  if (key == "bit") fault.bit = static_cast<int>(number(key, value, 63, refuse));
  if (key == "phase") fault.phase = phase_of(value, refuse);
}

void sleep_us(std::uint64_t microseconds) {
  timespec left{.tv_sec = static_cast<time_t>(microseconds / 1'000'000),
                .tv_nsec = static_cast<long>(microseconds % 1'000'000 * 1'000)};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

[[noreturn]] void hang_forever() {
  for (;;) pause();
}

}  // namespace

Fault parse_fault(std::string_view text) {
  const FaultText refuse{text};
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string_view kind_name = text.substr(0, colon);
  const auto syntax = std::ranges::find(kinds(), kind_name, &FaultSyntax::name);
  if (syntax == kinds().end()) refuse(fmt::format("'{}' is not a kind of fault", kind_name));

  Fault fault;
  fault.kind = syntax->kind;
  std::vector<std::string_view> missing = syntax->keys;
  std::string_view rest = colon == text.size() ? std::string_view{} : text.substr(colon + 1);
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view pair = rest.substr(0, comma);
    if (comma + 1 == rest.size()) refuse("the text ends with a comma");
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) refuse(fmt::format("'{}' is not key=value", pair));
    const std::string_view key = pair.substr(0, equals);
    const auto position = std::ranges::find(missing, key);
    if (position == missing.end()) refuse(fmt::format("key '{}' is unknown or repeated", key));
    missing.erase(position);
    set(fault, key, pair.substr(equals + 1), refuse);
  }
  if (!missing.empty()) refuse(fmt::format("key '{}' is missing", missing.front()));
  return fault;
}

Faults parse_faults(std::span<const std::string> texts) {
  Faults faults;
  for (const std::string& text : texts) faults.push_back(parse_fault(text));
  return faults;
}

void require_ranks(std::span<const Fault> faults, int ranks) {
  for (const Fault& fault : faults)
    if (fault.rank >= ranks)
      throw UsageError(
          fmt::format("--fault with rank={}: no such rank; use a rank from 0 to {}", fault.rank, ranks - 1));
}

void trigger_faults(std::span<const Fault> faults, Phase phase, int world_rank) {
  for (const Fault& fault : faults) {
    if (fault.rank != world_rank || fault.phase != phase) continue;
    if (fault.kind == Fault::Kind::die) kill(getpid(), SIGKILL);
    if (fault.kind == Fault::Kind::hang) hang_forever();
  }
}

RankFaults::RankFaults(std::span<const Fault> all, int world_rank) : world_rank_(world_rank) {
  std::ranges::copy_if(all, std::back_inserter(mine_), [&](const Fault& fault) { return fault.rank == world_rank; });
}

void RankFaults::enter(Phase phase) {
  phase_ = phase;
  trigger_faults(mine_, phase, world_rank_);
}

void RankFaults::before_operation() const {
  for (const Fault& fault : mine_) {
    if (fault.kind == Fault::Kind::delay) sleep_us(fault.delay_us);
  }
}

bool RankFaults::corrupts_results() const {
  return phase_ == Phase::check && !in_multi_step_ && std::ranges::any_of(mine_, [](const Fault& fault) {
           return fault.kind == Fault::Kind::flip || fault.kind == Fault::Kind::overrun;
         });
}

void RankFaults::after_operation(std::span<std::byte> result, std::size_t element_bytes) {
  if (result.empty() || !corrupts_results()) return;
  for (const Fault& fault : mine_) {
    const auto bit = static_cast<std::size_t>(fault.bit);
    if (fault.kind == Fault::Kind::flip && fault.index < result.size() / element_bytes && bit < 8 * element_bytes) {
      // Byte 0 holds the lowest bits: all supported machines are little-endian.
      result[fault.index * element_bytes + bit / 8] ^= std::byte{1} << (bit % 8);
    }
    if (fault.kind == Fault::Kind::overrun) overrun(result.data() + result.size());
  }
}

void RankFaults::overrun(std::byte* end) {
  // A second operation on the same memory must not undo the change of the first one.
  if (overrun_at_ == end && overrun_with_ == *end) return;
  overrun_at_ = end;
  overrun_with_ = ~*end;
  *end = overrun_with_;
}

std::span<std::byte> result_of(std::span<const Transfer> recvs, std::size_t element_bytes) {
  std::byte* begin = nullptr;
  std::byte* end = nullptr;
  for (const Transfer& recv : recvs) {
    if (recv.count == 0) continue;
    begin = begin == nullptr ? recv.data : std::min(begin, recv.data);
    end = std::max(end, recv.data + recv.count * element_bytes);
  }
  return {begin, end};
}

}  // namespace busbw
