// Reads the environment, uname and /proc. An allow-list keeps variables that may hold secrets out of records.
#include "common/os/provenance.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <string_view>
#include <thread>

namespace busbw {
namespace {

constexpr std::string_view kAllowedPrefixes[] = {"NCCL_",
                                                 "BUSBW_",
                                                 "UCX_",
                                                 "FI_",
                                                 "OMPI_MCA_",
                                                 "CUDA_VISIBLE_DEVICES",
                                                 "CUDA_DEVICE_ORDER",
                                                 "CUDA_LAUNCH_BLOCKING",
                                                 "OMP_NUM_",
                                                 "OMP_PROC_",
                                                 "OMP_PLACES",
                                                 "GOMP_CPU_",
                                                 "NUMA_",
                                                 "HSA_",
                                                 "RCCL_",
                                                 "SLURM_JOB_ID",
                                                 "SLURM_JOB_N",
                                                 "SLURM_NTASKS",
                                                 "SLURM_NNODES",
                                                 "LD_PRELOAD"};
// The same as in src/busbw/support/secret_variables.py; a test compares both.
constexpr std::string_view kSecretWords[] = {"TOKEN",      "SECRET", "PASS", "PWD",    "_KEY",
                                             "CREDENTIAL", "APIKEY", "AUTH", "BEARER", "COOKIE"};
constexpr std::string_view kSecretEndings[] = {"_PAT"};

bool is_allowed(std::string_view variable) {
  // OMPI_MCA_ variables contain lower-case names, so secret words are compared in upper case.
  std::string upper_case(variable);
  std::ranges::transform(upper_case, upper_case.begin(), [](unsigned char letter) { return std::toupper(letter); });
  const bool has_secret_word =
      std::ranges::any_of(kSecretWords, [&](auto word) { return upper_case.find(word) != upper_case.npos; }) ||
      std::ranges::any_of(kSecretEndings, [&](auto ending) { return upper_case.ends_with(ending); });
  const bool has_allowed_prefix =
      std::ranges::any_of(kAllowedPrefixes, [&](auto prefix) { return variable.starts_with(prefix); });
  return has_allowed_prefix && !has_secret_word;
}

// Beginnings of access tokens of GitHub, GitLab and Hugging Face. In a URL, such a token can be the user. The same as
// in src/busbw/support/secret_variables.py.
constexpr std::string_view kSecretUsers[] = {"gho_", "ghp_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "hf_"};
constexpr std::string_view kRedacted = "(redacted)";
constexpr std::string_view kSpaces = " \t\r\n";

/// Returns the position of the secret in the part of a URL after "://": 5 in "user:password@host"; 0 in "hf_abc@host",
/// because that user is a token; npos in "host:80/path".
std::size_t find_secret(std::string_view user_and_host) {
  const std::size_t user_end = user_and_host.find_first_of(":/@");
  if (user_end == user_and_host.npos || user_and_host[user_end] == '/') return user_and_host.npos;
  if (user_and_host[user_end] == '@') {
    const bool is_token =
        std::ranges::any_of(kSecretUsers, [&](auto prefix) { return user_and_host.starts_with(prefix); });
    return is_token ? 0 : user_and_host.npos;
  }
  // After "host:", digits and a slash are a port and a path, not a password.
  const auto port_end = user_and_host.find_first_not_of("0123456789", user_end + 1);
  const bool is_port = port_end > user_end + 1 && port_end != user_and_host.npos && user_and_host[port_end] == '/';
  return is_port ? user_and_host.npos : user_end + 1;
}

/// Replaces the passwords in all URLs of a value, and users that are tokens, by "(redacted)".
std::string mask_url_secrets(std::string_view value) {
  std::string masked;
  std::size_t masked_end = 0;  // `masked` stands for the part of `value` before this position
  for (auto url = value.find("://"); url != value.npos; url = value.find("://", url + 3)) {
    const std::size_t start = url + 3;
    const std::size_t end = std::min({value.find("://", start), value.find_first_of(kSpaces, start), value.size()});
    const std::string_view user_and_host = value.substr(start, end - start);
    const auto secret_start = find_secret(user_and_host);
    const auto secret_end = user_and_host.rfind('@');  // a password may contain another @
    // No secret, or an empty one.
    if (secret_start == user_and_host.npos || secret_end == user_and_host.npos || secret_end <= secret_start) continue;
    masked.append(value.substr(masked_end, start + secret_start - masked_end)).append(kRedacted);
    masked_end = start + secret_end;
  }
  return masked.append(value.substr(masked_end));
}

/// Returns the value after "key :" in a /proc file, or an empty string.
std::string proc_value(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const auto start = line.find_first_not_of(": \t", key.size());
    return start == line.npos ? std::string() : line.substr(start);
  }
  return {};
}

}  // namespace

std::string full_host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

NamedValues tuning_environment(char** environment) {
  NamedValues values;
  for (char** entry = environment; *entry; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals == text.npos || !is_allowed(text.substr(0, equals))) continue;
    values.emplace_back(text.substr(0, equals), mask_url_secrets(text.substr(equals + 1)));
  }
  std::ranges::sort(values);
  return values;
}

NamedValues machine_facts() {
  NamedValues facts{{"host", host_name()}};
  utsname system{};
  if (uname(&system) == 0) {
    facts.emplace_back("kernel", std::string(system.sysname) + " " + system.release);
    facts.emplace_back("architecture", system.machine);
  }
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) facts.emplace_back(name, value);
  };
  add("cpu_model", proc_value("/proc/cpuinfo", "model name"));
  add("cpus", std::to_string(std::thread::hardware_concurrency()));
  add("memory", proc_value("/proc/meminfo", "MemTotal"));
  return facts;
}

std::string host_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot_id;
  std::getline(file, boot_id);
  return full_host_name() + ' ' + boot_id;
}

std::string host_name() {
  const std::string name = full_host_name();
  return name.empty() ? "unknown" : name.substr(0, name.find('.'));
}

}  // namespace busbw
