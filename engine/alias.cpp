// This small program is installed under the name of each collective's program, such as all_reduce_perf. It starts the
// busbw-engine of its own folder, with the program's name as argv[0]. A wheel cannot contain links, and copies of the
// engine would be large.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

namespace {

constexpr int kExitEnvironment = 3;  // ExitCode::environment; error.hpp is not included, to avoid the C++ library
constexpr char kEngine[] = "busbw-engine";

}  // namespace

int main(int argc, char** argv) {
  char own_path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", own_path, sizeof own_path - 1);
  if (length <= 0) {
    fprintf(stderr, "%s: cannot read /proc/self/exe, the path of this program; mount /proc\n", argv[0]);
    return kExitEnvironment;
  }
  own_path[length] = '\0';
  char* const installed_name = strrchr(own_path, '/') + 1;

  char engine_path[PATH_MAX + sizeof kEngine];
  const auto folder_length = static_cast<size_t>(installed_name - own_path);
  memcpy(engine_path, own_path, folder_length);
  memcpy(engine_path + folder_length, kEngine, sizeof kEngine);

  char* name_only[] = {installed_name, nullptr};  // a caller that passes no name passes no arguments either
  if (argc < 1) argv = name_only;
  if (char* const slash = strrchr(argv[0], '/')) argv[0] = slash + 1;
  // The name of the installed program selects the collective, even if the caller used a link of another name. A longer
  // name, such as all_reduce_perf_mpi (nccl-tests' NAME_SUFFIX), is kept, because the table shows argv[0].
  const bool begins_with_installed_name = strncmp(argv[0], installed_name, strlen(installed_name)) == 0;
  if (!begins_with_installed_name) argv[0] = installed_name;
  execv(engine_path, argv);
  fprintf(stderr, "%s: cannot start %s: %s; install busbw again\n", argv[0], engine_path, strerror(errno));
  return kExitEnvironment;
}
