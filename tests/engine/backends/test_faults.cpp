#include "backends/faults.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <string>

#include "common/support/error.hpp"

using namespace busbw;

namespace {

/// Runs `body` in a forked process. Returns its wait status, or 0 with `alive` set if it still runs after `limit_ms`.
template <class Body>
int status_of_child(Body body, int limit_ms, bool& alive) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  for (int waited_ms = 0; waited_ms < limit_ms; waited_ms += 5) {
    if (waitpid(child, &status, WNOHANG) == child) {
      alive = false;
      return status;
    }
    usleep(5000);
  }
  alive = true;
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return 0;
}

std::string refusal(const char* text) {
  try {
    parse_fault(text);
  } catch (const UsageError& error) {
    CHECK(error.exit() == ExitCode::usage);
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("parse_fault: every kind") {
  const Fault delay = parse_fault("delay:rank=1,us=500");
  CHECK(delay.kind == Fault::Kind::delay);
  CHECK(delay.rank == 1);
  CHECK(delay.delay_us == 500);
  const Fault flip = parse_fault("flip:bit=3,rank=2,index=7");
  CHECK(flip.kind == Fault::Kind::flip);
  CHECK(flip.rank == 2);
  CHECK(flip.index == 7);
  CHECK(flip.bit == 3);
  CHECK(parse_fault("overrun:rank=0").kind == Fault::Kind::overrun);
  for (const Phase phase : kPhases) {
    const Fault die = parse_fault("die:rank=1,phase=" + std::string(name(phase)));
    CHECK(die.kind == Fault::Kind::die);
    CHECK(die.phase == phase);
  }
  CHECK(parse_fault("hang:rank=1,phase=timing").kind == Fault::Kind::hang);
}

TEST_CASE("parse_fault: an invalid text is an error that names the text and the allowed forms") {
  for (const char* text : {"",
                           "explode:rank=1",
                           "delay",
                           "delay:",
                           "delay:rank=1",
                           "delay:us=5",
                           "delay:rank=1,us=",
                           "delay:rank=1,us=-5",
                           "delay:rank=1,us=5ms",
                           "delay:rank=1,us=5,",
                           "delay:rank=1,,us=5",
                           "delay:rank=1,rank=2,us=5",
                           "delay:rank=x,us=5",
                           "delay:rank=1,us=99999999999999999999",
                           "flip:rank=1,index=7,bit=64",
                           "flip:rank=1,index=7",
                           "overrun:rank=1,us=5",
                           "overrun:rank",
                           "die:rank=1,phase=lunch",
                           "die:rank=1",
                           "hang:rank=99999999999,phase=timing"}) {
    const std::string sentence = refusal(text);
    CAPTURE(text);
    CHECK(sentence.starts_with("--fault " + std::string(text) + ": "));
    CHECK(sentence.find("delay:rank=R,us=N") != std::string::npos);
  }
}

TEST_CASE("trigger_faults: only the named rank dies or hangs, and only in the named phase") {
  const Faults die{parse_fault("die:rank=1,phase=warmup")};
  const Faults hang{parse_fault("hang:rank=1,phase=timing")};
  trigger_faults(die, Phase::warmup, 0);
  trigger_faults(die, Phase::timing, 1);
  trigger_faults(hang, Phase::warmup, 1);
  bool alive = false;
  const int status = status_of_child([&] { trigger_faults(die, Phase::warmup, 1); }, 5000, alive);
  CHECK_FALSE(alive);
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
  status_of_child([&] { RankFaults(hang, 1).enter(Phase::timing); }, 100, alive);
  CHECK(alive);
}

TEST_CASE("RankFaults: a flip changes one bit of one element, in the check phase only") {
  RankFaults faults(Faults{parse_fault("flip:rank=1,index=2,bit=9")}, 1);
  std::array<std::byte, 16> result{};
  const auto changed = [&] {
    int bytes = 0;
    for (const std::byte byte : result) bytes += byte != std::byte{0};
    return bytes;
  };
  faults.enter(Phase::timing);
  faults.after_operation(result, 4);
  CHECK(changed() == 0);
  faults.enter(Phase::check);
  faults.after_operation({}, 4);
  faults.after_operation(std::span(result).first(8), 4);  // has no element 2
  faults.after_operation(result, 1);                      // has no bit 9
  CHECK(changed() == 0);
  faults.after_operation(result, 4);
  CHECK(changed() == 1);
  CHECK(result[9] == std::byte{2});
  RankFaults others(Faults{parse_fault("flip:rank=1,index=2,bit=9")}, 0);
  others.enter(Phase::check);
  others.after_operation(result, 4);
  CHECK(result[9] == std::byte{2});
}

TEST_CASE("RankFaults: an overrun changes the byte after the result, and a second operation does not undo it") {
  RankFaults faults(Faults{parse_fault("overrun:rank=0")}, 0);
  std::array<std::byte, 9> memory{};
  const std::span<std::byte> result(memory.data(), 8);
  faults.enter(Phase::check);
  faults.after_operation(result, 4);
  CHECK(memory[8] == std::byte{0xff});
  faults.after_operation(result, 4);
  CHECK(memory[8] == std::byte{0xff});
  memory[8] = std::byte{0x55};  // the guard was rewritten
  faults.after_operation(result, 4);
  CHECK(memory[8] == std::byte{0xaa});
  CHECK(memory[7] == std::byte{0});
}

TEST_CASE("RankFaults: a delay sleeps before every operation of its rank") {
  const Faults all{parse_fault("delay:rank=1,us=20000")};
  const auto start = std::chrono::steady_clock::now();
  RankFaults(all, 1).before_operation();
  CHECK(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(20));
  RankFaults(Faults{parse_fault("delay:rank=1,us=3600000000")}, 0).before_operation();  // not an hour
}
