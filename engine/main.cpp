// The main function of all programs. The called name selects the collective: all_reduce_perf measures all_reduce.
// Errors that end the program are printed here.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "backends/nccl/nccl_backend.hpp"
#include "collectives/registry.hpp"
#include "comm_ops/comm_ops_settings.hpp"
#include "common/os/environment.hpp"
#include "common/os/program_file.hpp"
#include "common/support/error.hpp"
#include "common/support/stderr_message.hpp"
#include "common/support/version.hpp"
#include "each_node/each_node.hpp"
#include "flows/search_process.hpp"
#include "options/flag_table.hpp"
#include "options/options.hpp"
#include "output/private_stdout.hpp"
#include "output/record_writer.hpp"
#include "output/text_stream.hpp"
#include "rendezvous/world/world.hpp"
#include "replay/replay_step.hpp"
#include "run/launched_run.hpp"
#include "run/local_run.hpp"

namespace busbw {
namespace {

constexpr std::string_view kProgramSuffix = "_perf";  // nccl-tests' NAME_SUFFIX may follow: all_reduce_perf_mpi
constexpr std::string_view kEngineName = "busbw-engine";

struct CollectiveDescription {
  std::string_view name;
  std::string_view description;  // verb phrase: "reduces a buffer of every rank, ..."
};

constexpr CollectiveDescription kDescriptions[]{
#include "common/values/collective_descriptions.inc"
};

/// Command line of this process.
struct Invocation {
  std::string program;     // for messages: "all_reduce_perf", "busbw-engine flows"
  std::string collective;  // "all_reduce", or the name of a program without a collective, such as "flows"
  std::vector<std::string> arguments;
};

/// " all_reduce all_gather ...", with a leading blank, for messages.
std::string collectives_text() {
  std::string names;
  for (const auto& entry : all_collectives()) names += fmt::format(" {}", entry.name);
  return names;
}

/// True for a collective and for comm_ops, which has a program name too.
bool has_program(std::string_view name) {
  return name == kCommOpsName ||
         std::ranges::any_of(all_collectives(), [&](const auto& entry) { return entry.name == name; });
}

/// Returns the file name of `path`, which messages begin with.
std::string_view without_folder(std::string_view path) { return path.substr(path.find_last_of('/') + 1); }

/// Determines the collective from the program name (`all_reduce_perf -t 4`). If the engine is called under its own
/// name, its first argument is a collective (`busbw-engine all_reduce -t 4`), a program without a collective
/// (`busbw-engine flows`), or a flag that prints information (`busbw-engine --version`).
Invocation read_invocation(std::string_view called_as, std::vector<std::string> arguments) {
  const std::string name(without_folder(called_as));
  if (const auto end = name.find(kProgramSuffix); end != name.npos && has_program(name.substr(0, end)))
    return {name, name.substr(0, end), std::move(arguments)};
  constexpr std::array programs_without_collective{kFlowsName, kReplayName, kEachNodeName};
  if (!arguments.empty() &&
      std::ranges::find(programs_without_collective, arguments.front()) != programs_without_collective.end())
    return {fmt::format("{} {}", kEngineName, arguments.front()),
            arguments.front(),
            {arguments.begin() + 1, arguments.end()}};
  if (arguments.empty() || (!has_program(arguments.front()) && !arguments.front().starts_with('-')))
    throw UsageError(
        fmt::format("{} {}: unknown collective; name one of{}, or use a program name such as all_reduce_perf",
                    kEngineName, arguments.empty() ? "(nothing)" : arguments.front(), collectives_text()));
  if (arguments.front().starts_with('-')) {
    constexpr std::array information_flags{"--version", "--list-devices", "--world", "--help", "-h"};
    if (std::ranges::find(information_flags, arguments.front()) == information_flags.end())
      throw UsageError(fmt::format("{} {}: no collective before the options; name one of{}", kEngineName,
                                   arguments.front(), collectives_text()));
    // Any collective would do here: --help lists the same flags for all of them, and the other flags use none.
    return {std::string(kEngineName), "all_reduce", std::move(arguments)};
  }
  const std::string collective = arguments.front();
  arguments.erase(arguments.begin());
  return {collective + std::string(kProgramSuffix), collective, std::move(arguments)};
}

std::string version_text() {
  const std::string headers = nccl_headers();
  const auto build = program_build_id();
  return fmt::format("busbw {0}\n{1}backend host {0}\n{2}record schema {3}\nnccl-tests table 2.19.6\n", version(),
                     build ? fmt::format("build {}\n", *build) : "",
                     headers.empty() ? "" : fmt::format("backend nccl, built with the headers of {}\n", headers),
                     kSchemaVersion);
}

/// Returns a sentence for the help that says what the program measures.
std::string purpose_text(const Invocation& invocation) {
  if (invocation.program == kEngineName)
    return fmt::format("{} COLLECTIVE measures one of{}.", kEngineName, collectives_text());
  if (invocation.collective == kFlowsName) return "Measures rounds of flows between GPUs or host ranks for busbw find.";
  if (invocation.collective == kCommOpsName) return "Measures the creation, first use and end of communicators.";
  if (invocation.collective == kReplayName) return "Replays one step of a job and measures its time.";
  const auto entry = std::ranges::find(kDescriptions, invocation.collective, &CollectiveDescription::name);
  return fmt::format("Measures {}, which {}.", entry->name, entry->description);
}

/// Returns one line per GPU: index, bus id, name. If there is no GPU, the reason goes to stderr; that is not an error.
std::string device_lines(const std::string& program) {
  const GpuSurvey survey = survey_gpus(/*forks_follow=*/false);
  if (survey.gpus.empty()) print_stderr(program, "no GPU: " + survey.no_gpu_reason);
  std::string lines;
  for (std::size_t i = 0; i < survey.gpus.size(); ++i)
    lines += fmt::format("{} {} {}\n", i, survey.gpus[i].bus_id, survey.gpus[i].name);
  return lines;
}

/// Replaces closed standard streams by /dev/null. Otherwise the next opened file would get such a descriptor and
/// receive messages. The replacement is read-only, so writes still fail.
void occupy_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(descriptor, F_GETFD) < 0) static_cast<void>(open("/dev/null", O_RDONLY));
}

/// Returns the requested information, which is printed instead of a measurement.
std::string information_text(InfoRequest request, const Invocation& invocation) {
  switch (request) {
    case InfoRequest::help: return help_text(invocation.program, purpose_text(invocation), invocation.collective);
    case InfoRequest::version: return version_text();
    case InfoRequest::devices: return device_lines(invocation.program);
    case InfoRequest::world: break;
  }
  const World world = detect_world(process_environment);
  return fmt::format("{} {} {}\n", world.rank, world.size, world.launcher);
}

/// Runs the program and returns its exit code.
int run(int argc, char** argv) {
  const Invocation invocation = read_invocation(argv[0], {argv + 1, argv + argc});
  if (invocation.collective == kEachNodeName)
    return run_each_node(invocation.program, invocation.arguments, detect_world(process_environment));
  const bool serves_flows = invocation.collective == kFlowsName;
  World world;
  // parse_options calls this only for a run. So --help works even if the variables of a launcher are invalid.
  const auto detect_launched_processes = [&] {
    world = detect_world(process_environment);
    return world.size;
  };
  auto parsed = parse_options(invocation.program, invocation.collective, invocation.arguments, process_environment,
                              detect_launched_processes);
  if (const auto* request = std::get_if<InfoRequest>(&parsed)) {
    TextStream(STDOUT_FILENO).write(information_text(*request, invocation));
    return 0;
  }
  auto& options = std::get<Options>(parsed);
  // The search is a child process of process 0. It inherits standard output, so it starts before claim_stdout().
  std::optional<SearchProcess> search;
  if (!options.search.empty() && world.rank == 0) search.emplace(options.program, options.search);
  // The answers of flows, or records, must not mix with messages that libraries print on stdout.
  if (options.records_path == "-" || serves_flows) options.stdout_descriptor = claim_stdout();
  if (search) {
    options.requests_descriptor = search->requests_fd();
    options.stdout_descriptor = search->answers_fd();
    options.at_end = [&](int code) { return search->finish(code); };
  }
  const JobResult result = world.size > 1 ? run_launched(options, world) : run_local(options);
  return result.exit_code;
}

}  // namespace
}  // namespace busbw

int main(int argc, char** argv) {
  try {
    busbw::occupy_standard_descriptors();
    return busbw::run(argc, argv);
  } catch (const busbw::Error& error) {
    if (error.exit() != busbw::ExitCode::output_closed)
      busbw::print_stderr(busbw::without_folder(argv[0]), error.what());
    return static_cast<int>(error.exit());
  } catch (const std::exception& error) {
    busbw::print_stderr(busbw::without_folder(argv[0]), error.what());
    return static_cast<int>(busbw::ExitCode::environment);
  }
}
