// Compares the facts of all processes, and refuses a job with incompatible ones.
#include "run/process_agreement.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "backends/nccl/gpus/rank_gpus.hpp"
#include "common/os/processors.hpp"
#include "common/support/error.hpp"
#include "common/support/number_list.hpp"

namespace busbw {
namespace {

std::string process_name(const ProcessInfo& process) {
  return fmt::format("process {} on {}", process.number, process.host);
}

/// Throws UsageError if a process differs from process 0 in `member`, which must be the same everywhere. `label` names
/// the member in the message.
void require_same(const std::vector<ProcessInfo>& processes, std::string ProcessInfo::* member, const char* label,
                  const char* remedy) {
  for (std::size_t i = 1; i < processes.size(); ++i) {
    if (processes[i].*member == processes[0].*member) continue;
    throw UsageError(fmt::format("{} has a different {} than {}: \"{}\" and \"{}\"; {}", process_name(processes[i]),
                                 label, process_name(processes[0]), processes[i].*member, processes[0].*member,
                                 remedy));
  }
}

/// Library as text: "2.28.9 (/usr/lib/libnccl.so.2, SHA-256 1c86...)".
std::string library_text(const ProcessInfo& process) {
  if (process.library_path.empty()) return process.library_version;
  return fmt::format("{} ({}, SHA-256 {})", process.library_version, process.library_path,
                     process.library_sha256.empty() ? "unknown" : process.library_sha256);
}

/// Compares versions and hashes, because the same version may be built in two ways.
void require_same_library(const std::vector<ProcessInfo>& processes) {
  for (std::size_t i = 1; i < processes.size(); ++i) {
    const bool both_known = !processes[i].library_sha256.empty() && !processes[0].library_sha256.empty();
    const bool is_same_file = !both_known || processes[i].library_sha256 == processes[0].library_sha256;
    if (processes[i].library_version == processes[0].library_version && is_same_file) continue;
    throw UsageError(
        fmt::format("{} measures a different library than {}: {} and {}; name the same one with --library, or install "
                    "it on all hosts",
                    process_name(processes[i]), process_name(processes[0]), library_text(processes[i]),
                    library_text(processes[0])));
  }
}

/// True if the process sets the variable with which NCCL 2.30 and later allow shared GPUs.
bool allows_shared_gpus(const ProcessInfo& process) {
  return std::ranges::any_of(process.tuning, [](const auto& variable) {
    return variable.first == kSharedGpusVariable && variable.second == "1";
  });
}

/// Throws EnvironmentError if two ranks would use the same GPU. Does nothing if all processes allow shared GPUs.
void require_own_gpus(const std::vector<ProcessInfo>& processes, int ranks_per_process) {
  if (std::ranges::all_of(processes, allows_shared_gpus)) return;
  std::map<std::pair<std::string, std::string>, int> owners;  // rank by (host, bus id)
  for (const ProcessInfo& process : processes) {
    for (int local = 0; local < std::ssize(process.gpus); ++local) {
      const int rank = process.number * ranks_per_process + local;
      const std::string& gpu = process.gpus[static_cast<std::size_t>(local)];
      const auto [owner, is_first] = owners.try_emplace({process.host_identity, gpu}, rank);
      if (is_first) continue;
      throw EnvironmentError(fmt::format(
          "ranks {} and {} would share GPU {} of {} (its MIG parts count as one GPU); start one process per GPU, or "
          "assign GPUs with CUDA_VISIBLE_DEVICES or NCCL_TESTS_DEVICE; NCCL 2.30 and later can share a GPU: set "
          "{}=1",
          owner->second, rank, gpu, process.host, kSharedGpusVariable));
    }
  }
}

/// Names of the variables in which two processes differ: "NCCL_ALGO, NCCL_PROTO". Both lists are sorted.
std::string differing_variables(const NamedValues& first, const NamedValues& second) {
  std::set<std::pair<std::string, std::string>> differences;
  std::ranges::set_symmetric_difference(first, second, std::inserter(differences, differences.end()));
  std::set<std::string> names;
  for (const auto& [variable, value] : differences) names.insert(variable);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Addresses at which the other processes reached the store of process 0: "10.0.0.1:4711". With process numbers if the
/// addresses differ.
std::string store_text(const std::vector<ProcessInfo>& processes) {
  std::map<std::string, std::vector<int>> by_address;
  for (std::size_t i = 1; i < processes.size(); ++i)
    by_address[processes[i].store_address].push_back(processes[i].number);
  if (by_address.size() == 1) return by_address.begin()->first;
  std::string text;
  for (const auto& [address, numbers] : by_address)
    text += fmt::format("{}{} (processes {})", text.empty() ? "" : ", ", address, number_list_text(numbers));
  return text;
}

/// True if the process does not support the type for the same reason.
bool has_same_limitation(const ProcessInfo& process, const UnsupportedType& type) {
  return std::ranges::any_of(process.unsupported, [&](const UnsupportedType& candidate) {
    return candidate.dtype == type.dtype && candidate.limitation.reason == type.limitation.reason;
  });
}

/// Warning for the host with the most ranks per processor. None if no host has more ranks than processors.
std::optional<std::string> worst_oversubscription(const std::vector<ProcessInfo>& processes, int ranks_per_process) {
  struct HostRanks {
    std::string name;
    int ranks = 0;
    std::set<int> processors;

    /// Ranks per processor. 0 if the processors are unknown.
    double ranks_per_processor() const { return processors.empty() ? 0 : double(ranks) / double(processors.size()); }
  };
  std::map<std::string, HostRanks> hosts;  // by identity
  for (const ProcessInfo& process : processes) {
    HostRanks& host = hosts[process.host_identity];
    host.name = process.host;
    host.ranks += ranks_per_process;
    host.processors.insert(process.processors.begin(), process.processors.end());
  }
  const auto& [identity, worst] =
      *std::ranges::max_element(hosts, {}, [](const auto& host) { return host.second.ranks_per_processor(); });
  return oversubscription_warning(worst.ranks, static_cast<int>(worst.processors.size()), worst.name);
}

/// Types that at least one process does not support, each with the reason of the first such process.
std::vector<UnsupportedType> unsupported_by_any(const std::vector<ProcessInfo>& processes) {
  std::map<Dtype, UnsupportedType> unsupported;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    for (UnsupportedType type : processes[i].unsupported) {
      const auto has_limitation = [&](const ProcessInfo& process) { return has_same_limitation(process, type); };
      const bool is_common_reason = std::ranges::all_of(processes, has_limitation);
      if (!is_common_reason)
        type.limitation.reason = fmt::format("{}: {}", process_name(processes[i]), type.limitation.reason);
      unsupported.try_emplace(type.dtype, type);
    }
  }
  std::vector<UnsupportedType> types;
  for (const auto& [dtype, type] : unsupported) types.push_back(type);
  return types;
}

}  // namespace

Agreement compare_processes(const std::vector<ProcessInfo>& processes, int ranks_per_process) {
  require_same(processes, &ProcessInfo::version, "version of busbw", "install the same one on all hosts");
  require_same(processes, &ProcessInfo::arguments, "command line", "start all processes with the same arguments");
  require_same(processes, &ProcessInfo::trace, "trace",
               "set BUSBW_TRACE_DIRECTORY in all processes or none, and copy the replay program to all hosts");
  require_same(processes, &ProcessInfo::backend, "backend",
               "compare --list-devices on both hosts, or name one with --backend");
  require_same_library(processes);
  require_own_gpus(processes, ranks_per_process);

  Agreement agreement;
  agreement.max_bytes = std::ranges::min(processes, {}, &ProcessInfo::max_bytes).max_bytes;
  agreement.unsupported = unsupported_by_any(processes);
  std::set<std::string> hosts;
  for (const ProcessInfo& process : processes) hosts.insert(process.host_identity);
  agreement.hosts = static_cast<int>(hosts.size());
  agreement.facts = {{"processes", std::to_string(processes.size())},
                     {"hosts", std::to_string(hosts.size())},
                     {"store", store_text(processes)}};
  for (std::size_t i = 1; i < processes.size(); ++i) {
    if (processes[i].tuning == processes[0].tuning) continue;
    agreement.warnings.push_back(fmt::format(
        "{} has different values of {} than {}; set the same values on all hosts", process_name(processes[i]),
        differing_variables(processes[i].tuning, processes[0].tuning), process_name(processes[0])));
    break;  // one difference is enough to report
  }
  if (auto warning = worst_oversubscription(processes, ranks_per_process))
    agreement.warnings.push_back(std::move(*warning));
  return agreement;
}

}  // namespace busbw
