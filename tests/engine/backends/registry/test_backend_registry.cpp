#include "backends/registry/backend_registry.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "common/support/error.hpp"
#include "support_environment.hpp"
#include "support_errors.hpp"

using namespace busbw;

namespace {

const BackendEntry& entry_of(std::string_view name) {
  for (const BackendEntry& entry : all_backends())
    if (entry.traits.name == name) return entry;
  throw std::out_of_range(std::string(name));
}

}  // namespace

TEST_CASE("all_backends: names are unique, and made backends have the traits of their entries") {
  std::set<std::string_view> names;
  for (const BackendEntry& entry : all_backends()) CHECK(names.insert(entry.traits.name).second);
  Options options;
  for (const int processes : {1, 2}) {
    World world;
    world.size = options.settings.processes = processes;
    const auto backend = make_backend({&entry_of("host"), {}, ""}, options, world);
    CHECK(backend->traits().name == "host");
    CHECK(backend->facts().empty() == (processes == 1));  // only the socket backend names its transport
  }
}

TEST_CASE("choose_backend: by name without a survey, or the first that can run") {
  made_up_environment() = {};
  Options options;
  options.backend = "host";
  const BackendChoice host = choose_backend(options, false, look_up);
  CHECK(host.entry == &entry_of("host"));
  CHECK(host.no_gpu_reason.empty());
  options.backend = "nccl";
  CHECK(choose_backend(options, true, look_up).entry == &entry_of("nccl"));
  options.backend = "auto";
  const BackendChoice automatic = choose_backend(options, true, look_up);
  CHECK(automatic.entry == &entry_of(automatic.survey.gpus.empty() ? "host" : "nccl"));
  for (const std::string name : {"gpu", ""}) {
    options.backend = name;
    options.flags = FlagValues({{"--backend", name}});
    const std::string sentence = sentence_of<UsageError>([&] { choose_backend(options, false, look_up); });
    CHECK(sentence == "--backend " + (name.empty() ? "\"\"" : name) + ": allowed: host, nccl or auto");
  }
  options.backend = "nccll";
  options.flags = FlagValues({{"--backend", options.backend}});
  CHECK(sentence_of<UsageError>([&] { choose_backend(options, false, look_up); }) ==
        "--backend nccll: allowed: host, nccl or auto (did you mean nccl?)");
}

TEST_CASE("choose_backend: a job that requests GPUs runs on the host only if the user says so") {
  made_up_environment() = {{"SLURM_GPUS_ON_NODE", "8"}};
  Options options;
  options.backend = "auto";
  if (survey_gpus(false).gpus.empty()) {
    // A process of a launched job chooses before it joins, and fails afterwards, so that all end with this error.
    const BackendChoice choice = choose_backend(options, false, look_up);
    const std::string sentence = sentence_of<EnvironmentError>([&] { make_backend(choice, options, World{}); });
    check_names(sentence, {"GPUs are requested (SLURM_GPUS_ON_NODE=8), but ", "or use --backend host"});
  } else {
    CHECK(choose_backend(options, false, look_up).entry == &entry_of("nccl"));
  }
  options.backend = "host";
  CHECK(choose_backend(options, false, look_up).entry == &entry_of("host"));
}

TEST_CASE(
    "make_backend: an option that the backend does not support is an error, of the environment if GPUs are absent") {
  Options options;
  options.settings.gpus_per_thread = 2;
  const auto make = [&](const std::string& no_gpu_reason) {
    make_backend({&entry_of("host"), {}, no_gpu_reason}, options, World{});
  };
  check_names(sentence_of<UsageError>([&] { make(""); }), {"-g 2", "the host backend has no GPUs"});
  check_names(sentence_of<EnvironmentError>([&] { make("the driver sleeps"); }),
              {"no GPU found: the driver sleeps; -g 2"});
}
