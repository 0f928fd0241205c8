#include "options/fault.hpp"

#include <doctest/doctest.h>

#include <string>

#include "common/support/error.hpp"

using namespace busbw;

namespace {

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
