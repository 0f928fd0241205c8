// Reads the job's token from BUSBW_TOKEN, or from the file that BUSBW_TOKEN_FILE names.
#include "rendezvous/world/token.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "common/os/descriptor.hpp"
#include "common/os/random_bytes.hpp"
#include "common/support/error.hpp"
#include "common/support/printable.hpp"

namespace busbw {
namespace {

constexpr const char* kToken = "BUSBW_TOKEN";
constexpr const char* kTokenFile = "BUSBW_TOKEN_FILE";
constexpr std::size_t kMaxTokenBytes = 1024;
constexpr std::string_view kBlanks = " \t\r\n";

/// Returns the token in `text` without surrounding blanks. `source` names the variable or file in messages.
std::string require_token(std::string_view text, std::string_view source) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == text.npos)
    throw UsageError(
        fmt::format("{} holds no token; allowed is a word such as one made by "
                    "`openssl rand -hex 16`",
                    source));
  const std::string_view token = text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
  const bool is_one_word =
      std::ranges::all_of(token, [](unsigned char letter) { return letter > ' ' && letter < 0x7f; });
  if (token.size() > kMaxTokenBytes || !is_one_word)
    throw UsageError(fmt::format("{} holds no token: allowed is one word of at most {} ASCII letters, digits and signs",
                                 source, kMaxTokenBytes));
  return std::string(token);
}

std::string read_token_file(const std::string& path) {
  const std::string source = fmt::format("{}={}", kTokenFile, printable_value(path));
  // Non-blocking, because opening a named pipe would wait for a writer.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status{};
  if (!file.is_open() || fstat(file.number(), &status) != 0)
    throw UsageError(fmt::format("{}: {}; allowed is a readable file with the job's token", source, strerror(errno)));
  constexpr mode_t kPermissionsMask = 07777;
  constexpr mode_t kOtherUsersMask = 077;  // permissions of group and others
  if (!S_ISREG(status.st_mode))
    throw UsageError(fmt::format("{} is not a regular file; allowed is one with the job's token", source));
  if ((status.st_mode & kOtherUsersMask) != 0)
    throw UsageError(fmt::format("{} is accessible to other users (mode {:04o}); run chmod 600 {}", source,
                                 static_cast<unsigned>(status.st_mode & kPermissionsMask), printable_value(path)));
  // A token of maximum length may end with a few line breaks. A full buffer means that the file is too long.
  constexpr std::size_t kMaxLineBreakBytes = 8;
  std::array<char, kMaxTokenBytes + kMaxLineBreakBytes> text;
  const ssize_t length = read_fully(file, text.data(), text.size());
  if (length < 0)
    throw UsageError(fmt::format("{}: {}; allowed is a readable file with the job's token", source, strerror(errno)));
  if (length == std::ssize(text))
    throw UsageError(fmt::format("{} is too long for a token; allowed are {} bytes", source, kMaxTokenBytes));
  return require_token({text.data(), static_cast<std::size_t>(length)}, source);
}

}  // namespace

std::optional<std::string> find_token(Environment environment) {
  const auto token = environment(kToken);
  const auto path = environment(kTokenFile);
  if (token && path)
    throw UsageError(
        fmt::format("{} and {}={} are both set; set one of them", kToken, kTokenFile, printable_value(*path)));
  if (token) return require_token(*token, kToken);
  if (path) return read_token_file(*path);
  return std::nullopt;
}

std::string random_token() { return hexadecimal(random_bytes<16>()); }

}  // namespace busbw
