#include "backends/host/host_hardware.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/support/error.hpp"

using namespace busbw;

namespace {

/// A fake machine: files below a temporary folder.
class Machine {
 public:
  Machine() : root_(std::filesystem::temp_directory_path() / ("busbw-machine-" + std::to_string(getpid()))) {
    write("proc/meminfo", "MemTotal:       8000 kB\nMemFree:  10 kB\nMemAvailable:    4000 kB\n");
  }
  ~Machine() { std::filesystem::remove_all(root_); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  const std::filesystem::path& root() const { return root_; }

 private:
  std::filesystem::path root_;
};

}  // namespace

TEST_CASE("available_memory_bytes: without control groups it is MemAvailable") {
  const Machine machine;
  CHECK(available_memory_bytes(machine.root()) == 4000 * 1024);
}

TEST_CASE("available_memory_bytes: control groups, version 2, with a limit of the group above and cached pages") {
  const Machine machine;
  machine.write("proc/self/cgroup", "0::/a/b\n");
  machine.write("sys/fs/cgroup/a/b/memory.max", "max\n");
  machine.write("sys/fs/cgroup/a/b/memory.current", "100\n");
  CHECK(available_memory_bytes(machine.root()) == 4000 * 1024);
  machine.write("sys/fs/cgroup/a/memory.max", "1000000\n");
  machine.write("sys/fs/cgroup/a/memory.current", "600000\n");
  CHECK(available_memory_bytes(machine.root()) == 400000);
  machine.write("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 500000\n");
  CHECK(available_memory_bytes(machine.root()) == 900000);
}

TEST_CASE("available_memory_bytes: control groups, version 1; as a container sees them, at the root") {
  const Machine machine;
  machine.write("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/outside/of/view\n0::/\n");
  machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000\n");
  machine.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "2500000\n");
  CHECK(available_memory_bytes(machine.root()) == 0);
  machine.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "500000\n");
  CHECK(available_memory_bytes(machine.root()) == 1500000);
  // Version 1 writes "no limit" as a very large number.
  machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(available_memory_bytes(machine.root()) == 4000 * 1024);
}

TEST_CASE("available_memory_bytes: a missing MemAvailable is an error") {
  const Machine machine;
  machine.write("proc/meminfo", "MemTotal: 8000 kB\n");
  CHECK_THROWS_AS(available_memory_bytes(machine.root()), EnvironmentError);
}

TEST_CASE("cpu_name: the first processor's name, or unknown") {
  const Machine machine;
  CHECK(cpu_name(machine.root()) == "unknown processor");
  machine.write("proc/cpuinfo", "processor\t: 0\nmodel name\t: A Processor: fast\n\nmodel name\t: B\n");
  CHECK(cpu_name(machine.root()) == "A Processor: fast");
}

TEST_CASE("host_hardware: this machine has memory, a cache and a processor name") {
  CHECK(available_memory_bytes() > 0);
  CHECK(last_cache_bytes() > 0);
  CHECK_FALSE(cpu_name().empty());
}
