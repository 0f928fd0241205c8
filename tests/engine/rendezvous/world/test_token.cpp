#include "rendezvous/world/token.hpp"

#include <sys/stat.h>

#include <string>

#include "support_environment.hpp"
#include "support_errors.hpp"
#include "support_files.hpp"

using namespace busbw;

namespace {

std::optional<std::string> token(const Variables& variables) {
  made_up_environment() = variables;
  return find_token(look_up);
}
std::string refusal(const Variables& variables) {
  return sentence_of<UsageError>([&] { token(variables); });
}

}  // namespace

TEST_CASE("token: from the variable, from a file, or none") {
  CHECK_FALSE(token({}));
  CHECK(token({{"BUSBW_TOKEN", "0123abc"}}) == "0123abc");
  CHECK(token({{"BUSBW_TOKEN", " 0123abc\n"}}) == "0123abc");
  const TemporaryFile file("a-token/with+signs=\n");
  CHECK(token({{"BUSBW_TOKEN_FILE", file.path()}}) == "a-token/with+signs=");
  const TemporaryFile longest(std::string(1024, 'x') + "\r\n");
  CHECK(token({{"BUSBW_TOKEN_FILE", longest.path()}})->size() == 1024);
}

TEST_CASE("token: rejects an invalid token without printing it") {
  const std::string secret =
      "two se"
      "cret words";
  for (const std::string& text : {std::string(), std::string(" \n"), secret, std::string(1025, 'x'),
                                  std::string("a\x01"
                                              "b"),
                                  std::string("\xc3\xa4")}) {
    const std::string sentence = refusal({{"BUSBW_TOKEN", text}});
    check_names(sentence, {"BUSBW_TOKEN", "holds no token", "allowed is"});
    if (!text.empty()) CHECK(sentence.find(text) == std::string::npos);
    const TemporaryFile file(text);
    check_names(refusal({{"BUSBW_TOKEN_FILE", file.path()}}), {"BUSBW_TOKEN_FILE=" + file.path(), "token"});
  }
}

TEST_CASE("token: rejects files that are accessible to others, too long, not regular or missing") {
  const TemporaryFile file("token");
  for (const mode_t mode : {0640, 0604, 0660, 0777}) {
    REQUIRE(chmod(file.path().c_str(), mode) == 0);
    check_names(refusal({{"BUSBW_TOKEN_FILE", file.path()}}),
                {"is accessible to other users", "chmod 600 " + file.path()});
  }
  const TemporaryFile huge(std::string(1 << 20, 'x'));
  check_names(refusal({{"BUSBW_TOKEN_FILE", huge.path()}}), {"too long for a token"});
  check_names(refusal({{"BUSBW_TOKEN_FILE", "/nowhere/token"}}), {"/nowhere/token", "No such file"});
  check_names(refusal({{"BUSBW_TOKEN_FILE", ""}}), {"BUSBW_TOKEN_FILE=", "No such file"});
  check_names(refusal({{"BUSBW_TOKEN_FILE", "/"}}), {"is not a regular file"});
  const std::string pipe = file.path() + ".pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  check_names(refusal({{"BUSBW_TOKEN_FILE", pipe}}), {"is not a regular file"});
  unlink(pipe.c_str());
}

TEST_CASE("token: rejects both variables at once") {
  const std::string sentence = refusal({{"BUSBW_TOKEN", "abc"}, {"BUSBW_TOKEN_FILE", "/tmp/x"}});
  check_names(sentence, {"BUSBW_TOKEN and BUSBW_TOKEN_FILE=/tmp/x", "set one of them"});
  CHECK(sentence.find("abc") == std::string::npos);
}

TEST_CASE("token: random tokens are valid and differ") {
  const std::string one = random_token();
  CHECK(one.size() == 32);
  CHECK(one != random_token());
  CHECK(token({{"BUSBW_TOKEN", one}}) == one);
}
