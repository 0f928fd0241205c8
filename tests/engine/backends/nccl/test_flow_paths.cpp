// The NIC nearest to each GPU in a made-up PCI tree, and the settings of NCCL for flows.
#include "backends/nccl/flow_paths.hpp"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "temporary_folder.hpp"

using namespace busbw;
namespace fs = std::filesystem;

namespace {

/// A made-up sysfs: two PCI switches, with GPUs and NICs below them.
class PciTree {
 public:
  PciTree() { fs::create_directories(bus()); }
  void add_gpu(const std::string& path, const std::string& bus_id) { link(device(path), bus() / bus_id); }
  void add_nic(const std::string& path, const std::string& type, const std::string& name) {
    const fs::path folder = fs::path(sys()) / "class" / type / name;
    fs::create_directories(folder);
    link(device(path), folder / "device");
  }
  void add_virtual_interface(const std::string& name) { fs::create_directories(fs::path(sys()) / "class/net" / name); }
  void set_numa_node(const std::string& path, int node) const { std::ofstream(device(path) / "numa_node") << node; }
  NetworkPort port(const std::string& bus_id) const { return nearest_port(bus_id, 0, sys()).value(); }
  std::string nearest(const std::string& bus_id, int gpu) const {
    const auto port = nearest_port(bus_id, gpu, sys());
    return port ? port->name + "@" + std::to_string(port->position) : "none";
  }

 private:
  const std::string& sys() const { return folder_.path(); }
  fs::path bus() const { return fs::path(sys()) / "bus/pci/devices"; }
  fs::path device(const std::string& path) const {
    const fs::path folder = fs::path(sys()) / "devices/pci0000:00" / path;
    fs::create_directories(folder);
    return folder;
  }
  static void link(const fs::path& to, const fs::path& from) { fs::create_directory_symlink(to, from); }

  test::TemporaryFolder folder_;
};

struct ScopedVariable {
  ScopedVariable(const char* variable, const char* value) : name(variable) { setenv(name, value, 1); }
  ~ScopedVariable() { unsetenv(name); }
  const char* name;
};

}  // namespace

TEST_CASE("nearest port: the NIC below the same switch; of equally near ones, each GPU takes another") {
  PciTree tree;
  CHECK(tree.nearest("0000:0f:00", 0) == "none");
  tree.add_gpu("0000:00:01.0/0000:0f:00.0", "0000:0f:00.0");
  tree.add_gpu("0000:00:02.0/0000:1f:00.0", "0000:1f:00.0");
  tree.add_nic("0000:00:03.0/0000:2f:00.0", "net", "eth0");
  CHECK(tree.nearest("0000:0f:00", 0) == "eth0@0");
  tree.add_nic("0000:00:02.0/0000:1c:00.0", "infiniband", "mlx5_2");
  tree.add_nic("0000:00:01.0/0000:0c:00.0", "infiniband", "mlx5_10");
  CHECK(tree.nearest("0000:0f:00", 0) == "mlx5_10@1");
  CHECK(tree.nearest("0000:1f:00.0", 1) == "mlx5_2@0");
  tree.add_nic("0000:00:01.0/0000:0d:00.0", "infiniband", "mlx5_11");
  CHECK(tree.nearest("0000:0f:00", 0) == "mlx5_10@1");
  CHECK(tree.nearest("0000:0f:00", 1) == "mlx5_11@2");
  CHECK(tree.nearest("0000:0f:00", 2) == "mlx5_10@1");
}

TEST_CASE("nearest port: NUMA nodes of NIC and GPU; nothing if the kernel does not know them") {
  PciTree tree;
  tree.add_gpu("0000:00:01.0/0000:0f:00.0", "0000:0f:00.0");
  tree.add_nic("0000:00:02.0/0000:1c:00.0", "infiniband", "mlx5_0");
  CHECK_FALSE(tree.port("0000:0f:00").numa_node);
  tree.set_numa_node("0000:00:02.0/0000:1c:00.0", 1);
  tree.set_numa_node("0000:00:01.0/0000:0f:00.0", -1);
  CHECK(tree.port("0000:0f:00").numa_node == 1);
  CHECK_FALSE(tree.port("0000:0f:00").device_numa_node);
  tree.set_numa_node("0000:00:01.0/0000:0f:00.0", 0);
  CHECK(tree.port("0000:0f:00").device_numa_node == 0);
}

TEST_CASE("nearest port: NCCL_IB_HCA limits the choice as in NCCL") {
  PciTree tree;
  tree.add_gpu("0000:00:01.0/0000:0f:00.0", "0000:0f:00.0");
  tree.add_nic("0000:00:01.0/0000:0c:00.0", "infiniband", "mlx5_1");
  tree.add_nic("0000:00:02.0/0000:1c:00.0", "infiniband", "mlx5_10");
  const std::pair<const char*, const char*> cases[]{{"mlx5_1", "mlx5_1@0"},    {"=mlx5_10", "mlx5_10@0"},
                                                    {"^=mlx5_1", "mlx5_10@0"}, {"=mlx5_10:1,mlx5_1:1", "mlx5_1@0"},
                                                    {"^mlx5_1", "none"},       {"other", "none"}};
  for (const auto& [list, expected] : cases) {
    const ScopedVariable variable("NCCL_IB_HCA", list);
    CHECK_MESSAGE(tree.nearest("0000:0f:00", 0) == expected, list);
  }
}

TEST_CASE("nearest port: an interface without hardware counts only if it is named") {
  PciTree tree;
  tree.add_gpu("0000:00:01.0/0000:0f:00.0", "0000:0f:00.0");
  tree.add_virtual_interface("bond0");
  CHECK(tree.nearest("0000:0f:00", 0) == "none");
  const std::pair<const char*, const char*> cases[]{{"bond", "bond0@0"}, {"^eth", "none"}, {"eth", "none"}};
  for (const auto& [list, expected] : cases) {
    const ScopedVariable variable("NCCL_SOCKET_IFNAME", list);
    CHECK_MESSAGE(tree.nearest("0000:0f:00", 0) == expected, list);
  }
}

TEST_CASE("flow environment: sets what the user did not set, and replaces NCCL_COMM_BLOCKING") {
  CHECK(flow_environment().empty());
  const ScopedVariable chosen("NCCL_NCHANNELS_PER_NET_PEER", "8");
  const ScopedVariable blocking("NCCL_COMM_BLOCKING", "1");
  set_flow_environment();
  forbid_blocking_communicators();
  const auto values = flow_environment();
  const std::vector<std::pair<std::string, std::string>> expected{
      {"NCCL_PXN_DISABLE", "1"},    {"NCCL_NCHANNELS_PER_NET_PEER", "8"}, {"NCCL_MAX_P2P_NCHANNELS", "32"},
      {"NCCL_BUFFSIZE", "2097152"}, {"NCCL_LL128_BUFFSIZE", "65536"},     {"NCCL_COMM_BLOCKING", "0"}};
  CHECK(values == expected);
  for (const auto& [name, value] : expected)
    if (name != "NCCL_NCHANNELS_PER_NET_PEER") unsetenv(name.c_str());
}
