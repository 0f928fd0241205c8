// Installed as all_reduce_perf and under the ten other program names. Starts the engine in the same folder under the
// called name. A wheel cannot contain links, and eleven copies of the engine would multiply its size.
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
  char self[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length <= 0) {
    fprintf(stderr, "%s: cannot read /proc/self/exe, the path of this program; mount /proc\n", argv[0]);
    return kExitEnvironment;
  }
  self[length] = '\0';
  char* const name = strrchr(self, '/') + 1;

  char engine[PATH_MAX + sizeof kEngine];
  const auto directory_length = static_cast<size_t>(name - self);
  memcpy(engine, self, directory_length);
  memcpy(engine + directory_length, kEngine, sizeof kEngine);

  // The name of this file selects the collective, even if a link of another name was called. A called name that begins
  // with it, as with nccl-tests' NAME_SUFFIX (all_reduce_perf_mpi), is kept for the table.
  char* name_only[] = {name, nullptr};  // a caller that passes no name passes no arguments either
  if (argc < 1) argv = name_only;
  if (char* const slash = strrchr(argv[0], '/')) argv[0] = slash + 1;
  if (strncmp(argv[0], name, strlen(name)) != 0) argv[0] = name;
  execv(engine, argv);
  fprintf(stderr, "%s: cannot start %s: %s; install busbw again\n", argv[0], engine, strerror(errno));
  return kExitEnvironment;
}
