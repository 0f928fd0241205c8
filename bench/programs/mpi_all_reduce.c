/* The peer: measures MPI_Allreduce of floats over sizes as all_reduce_perf does. Prints "bytes microseconds" per size.
 * The time is the mean over ranks of the median over iterations. Arguments: first and last size in bytes, factor,
 * iterations.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 5) MPI_Abort(MPI_COMM_WORLD, 2);
  const long least = atol(argv[1]), most = atol(argv[2]), factor = atol(argv[3]);
  const int iterations = atoi(argv[4]);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  float* send = malloc(most);
  float* recv = malloc(most);
  double* times = malloc(sizeof(double) * iterations);
  for (long i = 0; i < most / 4; ++i) send[i] = 1.0f;
  memset(recv, 0, most);
  for (long bytes = least; bytes <= most; bytes *= factor) {
    const long positions = most / bytes; /* move through the buffers, as the engine does */
    for (int i = -2; i < iterations; ++i) {
      const long shift = ((i + 2) % positions) * (bytes / 4);
      if (i <= 0) MPI_Barrier(MPI_COMM_WORLD);
      const double start = MPI_Wtime();
      MPI_Allreduce(send + shift, recv + shift, (int)(bytes / 4), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      if (i >= 0) times[i] = MPI_Wtime() - start;
    }
    qsort(times, iterations, sizeof(double), ascending);
    double mine = times[iterations / 2] * 1e6, sum = 0;
    MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%ld %.3f\n", bytes, sum / ranks);
  }
  MPI_Finalize();
  return 0;
}
