/* Program that the MPI benchmark compares with all_reduce_perf: measures MPI_Allreduce of floats over sizes in the same
 * way. Prints "bytes microseconds" per size. The time is the mean over ranks of the median over iterations. Arguments:
 * first and last size in bytes, factor, iterations.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare_ascending(const void* a, const void* b) {
  const double first = *(const double*)a, second = *(const double*)b;
  return (first > second) - (first < second);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 5) MPI_Abort(MPI_COMM_WORLD, 2);
  const long min_bytes = atol(argv[1]), max_bytes = atol(argv[2]), factor = atol(argv[3]);
  const int iterations = atoi(argv[4]);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  float* send = malloc(max_bytes);
  float* recv = malloc(max_bytes);
  double* times_s = malloc(sizeof(double) * iterations);
  for (long i = 0; i < max_bytes / 4; ++i) send[i] = 1.0f;
  memset(recv, 0, max_bytes);
  for (long bytes = min_bytes; bytes <= max_bytes; bytes *= factor) {
    const long positions = max_bytes / bytes; /* move through the buffers, as the engine does */
    for (int i = -2; i < iterations; ++i) { /* the first two are warm-up */
      const long offset = ((i + 2) % positions) * (bytes / 4);
      if (i <= 0) MPI_Barrier(MPI_COMM_WORLD);
      const double start_s = MPI_Wtime();
      MPI_Allreduce(send + offset, recv + offset, (int)(bytes / 4), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      if (i >= 0) times_s[i] = MPI_Wtime() - start_s;
    }
    qsort(times_s, iterations, sizeof(double), compare_ascending);
    double median_us = times_s[iterations / 2] * 1e6, sum_us = 0; /* over the ranks */
    MPI_Reduce(&median_us, &sum_us, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%ld %.3f\n", bytes, sum_us / ranks);
  }
  MPI_Finalize();
  return 0;
}
