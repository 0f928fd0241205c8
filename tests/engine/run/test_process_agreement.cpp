#include "run/process_agreement.hpp"

#include <doctest/doctest.h>

#include "support_errors.hpp"

using namespace busbw;

namespace {

ProcessInfo process_on(const std::string& host, std::vector<std::string> gpus = {}) {
  ProcessInfo it;
  it.host = host;
  it.host_identity = host + ".example boot-1";
  it.arguments = "all_reduce_perf -b 8 -e 1M";
  it.version = "0.1.0";
  it.backend = gpus.empty() ? "host" : "nccl";
  it.library_version = "2.28.3";
  it.library_path = "/usr/lib/libnccl.so.2";
  it.library_sha256 = "1c86";
  it.store_address = "10.0.0.1:4711";
  it.gpus = std::move(gpus);
  it.max_bytes = 1 << 20;
  it.tuning = {{"NCCL_ALGO", "Ring"}, {"NCCL_DEBUG", "WARN"}};
  return it;
}

/// Compares the processes of a job of which none is lost.
Agreement compare_all(std::vector<ProcessInfo> processes, int ranks_per_process) {
  for (std::size_t i = 0; i < processes.size(); ++i) processes[i].number = static_cast<int>(i);
  return compare_processes(processes, ranks_per_process);
}

std::string value(const Agreement& agreement, const std::string& name) {
  for (const auto& [fact, text] : agreement.facts)
    if (fact == name) return text;
  return "(none)";
}

}  // namespace

TEST_CASE("process agreement: facts survive encoding, and truncated ones are errors") {
  ProcessInfo there = process_on("n1", {"0000:17:00.0", "0000:2a:00.0"});
  there.processors = {0, 63};
  there.unsupported = {{Dtype::f8e5m2, {"too old", "take a new one"}}};
  const Bytes packed = MessageWriter().add(there).bytes();
  const ProcessInfo back = MessageReader(packed).take<ProcessInfo>();
  CHECK(back.host == there.host);
  CHECK(back.arguments == there.arguments);
  CHECK(back.version == there.version);
  CHECK(back.backend == there.backend);
  CHECK(back.library_version == there.library_version);
  CHECK(back.library_path == there.library_path);
  CHECK(back.library_sha256 == there.library_sha256);
  CHECK(back.store_address == there.store_address);
  CHECK(back.gpus == there.gpus);
  CHECK(back.processors == there.processors);
  CHECK(back.max_bytes == there.max_bytes);
  CHECK(back.tuning == there.tuning);
  REQUIRE(back.unsupported.size() == 1);
  CHECK(back.unsupported[0].dtype == Dtype::f8e5m2);
  CHECK(back.unsupported[0].limitation.reason == "too old");
  CHECK(back.unsupported[0].limitation.remedy == "take a new one");
  for (std::size_t length = 0; length < packed.size(); ++length)
    CHECK_THROWS_AS(MessageReader(std::span(packed).first(length)).take<ProcessInfo>(), BrokenMessage);
}

TEST_CASE(
    "process agreement: the largest size is the one that all have memory for; hosts and store addresses are listed") {
  std::vector<ProcessInfo> all{process_on("n1"), process_on("n1"), process_on("n2"), process_on("n2")};
  all[2].max_bytes = 1000;
  Agreement agreement = compare_all(all, 1);
  CHECK(agreement.max_bytes == 1000);
  CHECK(agreement.hosts == 2);
  CHECK(value(agreement, "processes") == "4");
  CHECK(value(agreement, "hosts") == "2");
  CHECK(value(agreement, "store") == "10.0.0.1:4711");
  CHECK(agreement.warnings.empty());
  all[0].store_address = "127.0.0.1:4711";  // process 0 always uses the loopback address
  all[3].store_address = "192.168.0.1:4711";
  agreement = compare_all(all, 1);
  CHECK(value(agreement, "store") == "10.0.0.1:4711 (processes 1 and 2), 192.168.0.1:4711 (processes 3)");
}

TEST_CASE("process agreement: a difference in a common setting ends the job and names both processes") {
  struct Difference {
    std::string ProcessInfo::* field;
    const char* called;
    const char* remedy;
    ExitCode exit;
  };
  const Difference differences[] = {{&ProcessInfo::version, "version", "install", ExitCode::usage},
                                    {&ProcessInfo::arguments, "command line", "same arguments", ExitCode::usage},
                                    {&ProcessInfo::backend, "backend", "--backend", ExitCode::usage}};
  for (const Difference& difference : differences) {
    std::vector<ProcessInfo> all{process_on("n1"), process_on("n1"), process_on("n2")};
    all[2].*difference.field = "something else";
    try {
      compare_all(all, 1);
      FAIL_CHECK("no error");
    } catch (const Error& error) {
      CHECK(error.exit() == difference.exit);
      check_names(error.what(), {"process 2 on n2", "process 0 on n1", difference.called, difference.remedy,
                                 "\"something else\"", "\"" + all[0].*difference.field + "\""});
    }
  }
}

TEST_CASE("process agreement: a different library version or file ends the job and names both") {
  for (auto field : {&ProcessInfo::library_version, &ProcessInfo::library_sha256}) {
    std::vector<ProcessInfo> all{process_on("n1"), process_on("n1"), process_on("n2")};
    all[2].*field = "deadbeef";
    all[2].library_path = "/opt/libnccl.so.2";
    const std::string sentence = sentence_of<UsageError>([&] { compare_all(all, 1); });
    check_names(sentence, {"process 2 on n2", "process 0 on n1", "/opt/libnccl.so.2", "/usr/lib/libnccl.so.2",
                           "SHA-256 1c86", "deadbeef", "2.28.3", "--library", "all hosts"});
  }
}

TEST_CASE("process agreement: the same file at two paths is the same library, and unknown hashes are not compared") {
  std::vector<ProcessInfo> all{process_on("n1"), process_on("n2")};
  all[1].library_path = "/home/me/libnccl.so.2";
  CHECK_NOTHROW(compare_all(all, 1));
  all[1].library_sha256.clear();
  CHECK_NOTHROW(compare_all(all, 1));
}

TEST_CASE("process agreement: a GPU belongs to one rank; the same bus on another host is another GPU") {
  const std::vector<std::string> first{"0000:17:00.0", "0000:2a:00.0"};
  CHECK_NOTHROW(compare_all({process_on("n1", first), process_on("n2", first)}, 2));
  check_names(
      sentence_of<EnvironmentError>([&] {
        compare_all(
            {process_on("n1", first), process_on("n2", first), process_on("n1", {"0000:3b:00.0", "0000:2a:00.0"})}, 2);
      }),
      {"ranks 1 and 5", "GPU 0000:2a:00.0 of n1", "CUDA_VISIBLE_DEVICES"});
}

TEST_CASE("process agreement: a GPU may be shared if all processes set NCCL's variable") {
  std::vector<ProcessInfo> all{process_on("n1", {"0000:17:00"}), process_on("n1", {"0000:17:00"})};
  all[0].tuning = {{"NCCL_MULTI_RANK_GPU_ENABLE", "1"}};
  check_names(sentence_of<EnvironmentError>([&] { compare_all(all, 1); }), {"NCCL_MULTI_RANK_GPU_ENABLE=1", "MIG"});
  all[1].tuning = all[0].tuning;
  CHECK_NOTHROW(compare_all(all, 1));
}

TEST_CASE("process agreement: different tuning gives a warning that names the variables and the first process") {
  std::vector<ProcessInfo> all{process_on("n1"), process_on("n2"), process_on("n3")};
  all[1].tuning = {{"NCCL_ALGO", "Tree"}, {"NCCL_DEBUG", "WARN"}, {"NCCL_PROTO", "LL"}};
  all[2].tuning = {};
  const Agreement agreement = compare_all(all, 1);
  REQUIRE(agreement.warnings.size() == 1);
  check_names(agreement.warnings[0], {"process 1 on n2", "NCCL_ALGO, NCCL_PROTO than", "process 0 on n1"});
}

TEST_CASE("process agreement: messages name the right process after the loss of another one") {
  std::vector<ProcessInfo> all{process_on("n1", {"0000:17:00"}), process_on("n2", {"0000:17:00"}),
                               process_on("n3", {"0000:17:00"})};
  all[1].number = 2;
  all[2].number = 3;
  all[2].tuning = {};
  all[2].store_address = "192.168.0.1:4711";
  const Agreement agreement = compare_processes(all, 1);
  REQUIRE(agreement.warnings.size() == 1);
  check_names(agreement.warnings[0], {"process 3 on n3 has different values", "process 0 on n1"});
  CHECK(value(agreement, "store") == "10.0.0.1:4711 (processes 2), 192.168.0.1:4711 (processes 3)");
  all[2].host_identity = all[0].host_identity;
  check_names(sentence_of<EnvironmentError>([&] { compare_processes(all, 1); }), {"ranks 0 and 3 would share"});
}

TEST_CASE("process agreement: a type is skipped if one process does not support it, and that process is named") {
  std::vector<ProcessInfo> all{process_on("n1"), process_on("n2"), process_on("n2")};
  CHECK(compare_all(all, 1).unsupported.empty());
  all[2].unsupported = {{Dtype::f8e4m3, {"GPU 0 has 8.0", "use newer GPUs"}}};
  all[1].unsupported = {{Dtype::f8e5m2, {"GPU 0 has 8.9", "use newer GPUs"}}, {Dtype::f8e4m3, {"GPU 0 has 8.9", "x"}}};
  const Agreement agreement = compare_all(all, 1);
  CHECK(dtypes_of(agreement.unsupported) == std::vector<Dtype>{Dtype::f8e4m3, Dtype::f8e5m2});
  for (const UnsupportedType& type : agreement.unsupported)
    CHECK(type.limitation.reason == "process 1 on n2: GPU 0 has 8.9");
  CHECK(agreement.unsupported[1].limitation.remedy == "use newer GPUs");
}

TEST_CASE("process agreement: a limitation of all processes names none of them") {
  std::vector<ProcessInfo> all{process_on("n1"), process_on("n2")};
  for (ProcessInfo& process : all) process.unsupported = {{Dtype::f8e4m3, {"NCCL 2.18.3 has none", "use 2.24"}}};
  const Agreement agreement = compare_all(all, 1);
  REQUIRE(agreement.unsupported.size() == 1);
  CHECK(agreement.unsupported[0].limitation.reason == "NCCL 2.18.3 has none");
}

TEST_CASE("process agreement: the warning on shared processors names the most crowded host") {
  auto on = [](const std::string& host, std::vector<int> processors) {
    ProcessInfo it = process_on(host);
    it.processors = std::move(processors);
    return it;
  };
  // A process may be bound to its own processor, or all may use the same ones. The union per host counts.
  CHECK(compare_all({on("n1", {0}), on("n1", {1}), on("n2", {0}), on("n2", {1})}, 1).warnings.empty());
  CHECK(compare_all({on("n1", {0, 1}), on("n1", {0, 1}), on("n2", {0, 1})}, 1).warnings.empty());
  CHECK(compare_all({on("n1", {}), on("n1", {})}, 4).warnings.empty());
  const auto warnings = compare_all({on("n1", {0, 1}), on("n2", {0, 1}), on("n2", {1, 2})}, 4).warnings;
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].starts_with("8 ranks on n2 share 3 processors, "));
}
