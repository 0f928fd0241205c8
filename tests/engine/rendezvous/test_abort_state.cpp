#include "rendezvous/abort_state.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace busbw;

namespace {

const Failure kOtherFailure{ExitCode::rank_lost, "rank 3 was lost"};

}  // namespace

TEST_CASE("AbortState: an earlier failure of another process replaces an unconfirmed one") {
  AbortState state(false);
  state.open_control();
  state.abort(ExitCode::environment, "no GPU");
  CHECK(state.aborted());
  CHECK(state.failure_to_send()->message == "no GPU");
  state.record_failure(kOtherFailure);
  CHECK(state.failure()->message == kOtherFailure.message);
  CHECK(state.failure_to_send()->message == kOtherFailure.message);
  state.record_failure({ExitCode::usage, "a later failure"});
  CHECK(state.failure()->message == kOtherFailure.message);
}

TEST_CASE("AbortState: without a control connection, the failure of this process counts at once") {
  AbortState state(false);
  state.abort(ExitCode::environment, "no GPU");
  state.record_failure(kOtherFailure);
  CHECK(state.failure()->message == "no GPU");
}

TEST_CASE("AbortState: a reported failure is not sent") {
  AbortState state(false);
  state.record_failure(kOtherFailure);
  state.abort(ExitCode::environment, "a consequence");
  CHECK_FALSE(state.failure_to_send());
}

TEST_CASE("AbortState: a process withdraws once, and only from a job that tolerates losses and has not failed") {
  std::vector<std::string> messages;
  const auto on_status = [&](const std::string& message) { messages.push_back(message); };
  AbortState state(false);
  CHECK_FALSE(state.withdraw("GPU 3 failed", on_status));
  CHECK_FALSE(state.aborted());
  state.tolerate_losses(true);
  CHECK(state.withdraw("GPU 3 failed", on_status));
  CHECK(state.withdraw("GPU 4 failed", on_status));
  CHECK(state.withdrawal_reason() == "GPU 3 failed");
  CHECK(messages == std::vector<std::string>{"GPU 3 failed"});
  CHECK(state.aborted());
  CHECK_FALSE(state.failure());

  AbortState failed(true);
  failed.record_failure(kOtherFailure);
  CHECK_FALSE(failed.withdraw("GPU 3 failed", on_status));
}
