// Waits in process 0 until all processes have joined, and writes the messages about missing processes.
#include "rendezvous/join_wait.hpp"

#include <fmt/format.h>

#include "common/os/provenance.hpp"
#include "common/os/ticker.hpp"
#include "common/support/number_list.hpp"

namespace busbw {

void JoinWait::run() {
  const int limit_ticks = ticks_of(membership_.join_limit_s);
  int next_status_tick = kFirstStatusTicks;
  bool has_reported_mismatch = false;
  for (int tick = 0;; ++tick) {
    const std::vector<int> missing = server_.tracker().missing_processes();
    if (missing.empty()) return;
    callbacks_.on_tick();
    if (abort_state_.aborted()) throw JobAborted();
    // A refused process has the job's token but other settings. It does not try again, so it would stay missing.
    if (const auto refusal = server_.tracker().first_refusal()) throw Error(refusal->exit, refusal->message);
    if (tick >= limit_ticks) return give_up(missing);
    const bool is_mismatch_new = !has_reported_mismatch && !mismatch_text().empty();
    has_reported_mismatch = has_reported_mismatch || is_mismatch_new;
    if (is_mismatch_new || tick >= next_status_tick) {
      callbacks_.on_status(
          fmt::format("{}{}; process 0 listens at {}", missing_text(missing), mismatch_text(), listen_address_text_));
      next_status_tick = tick + kStatusTicks;
    }
    sleep_tick();
  }
}

void JoinWait::give_up(const std::vector<int>& missing) {
  if (!membership_.tolerates_losses) throw Error(ExitCode::rank_lost, timeout_message(missing));
  callbacks_.on_status(
      fmt::format("{}; the job continues without {}", missing_text(missing), missing.size() == 1 ? "it" : "them"));
  server_.lose_missing_processes(
      membership_.hosts, fmt::format("did not join the job within {:g} s{}; check that it runs and reaches {} on {}",
                                     membership_.join_limit_s, mismatch_text(), listen_address_text_, host_name()));
}

std::string JoinWait::missing_text(const std::vector<int>& missing) const {
  return fmt::format("{} of {} processes {} not joined: {}", missing.size(), membership_.processes,
                     missing.size() == 1 ? "has" : "have", number_list_text(missing));
}

std::string JoinWait::timeout_message(const std::vector<int>& missing) const {
  const int rejected = server_.rejected_connections();
  const std::string rejected_text =
      rejected == 0 ? "" : fmt::format(", and {} connection{} rejected", rejected, rejected == 1 ? " was" : "s were");
  return fmt::format(
      "{} (limit {:g} s){}{}; check that they run and reach process 0 on {}, which listens at {} (a firewall?), or "
      "raise BUSBW_JOIN_TIMEOUT_S and -T",
      missing_text(missing), membership_.join_limit_s, rejected_text, mismatch_text(), host_name(),
      listen_address_text_);
}

std::string JoinWait::mismatch_text() const {
  std::string text;
  for (const std::string& mismatch :
       {server_.tracker().token_mismatch_message(), server_.tracker().version_mismatch_message()})
    if (!mismatch.empty()) text += "; " + mismatch;
  return text;
}

}  // namespace busbw
