/* A bulk-synchronous program: in each step, every rank does the same fixed work, and then waits for
 * all other ranks.
 *
 *   steps TURNS STEPS barrier|allreduce FOLDER
 *
 * The work is a loop with TURNS iterations. Each iteration needs the product of the previous one.
 * So the CPU time of the work does not depend on the load of the hardware threads that share the
 * core. Rank R stays on CPU R at SCHED_FIFO, so ordinary tasks must wait for it. Rank R writes the
 * file FOLDER/rankR. The file has one line per step with four times in nanoseconds: the start of
 * the step (CLOCK_MONOTONIC), the length of the work, the length of the step, and the CPU time that
 * the scheduler charged for the work (CLOCK_THREAD_CPUTIME_ID). */
#define _GNU_SOURCE
#include <inttypes.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PRIORITY 10
#define WARM_UP 20

struct step {
	uint64_t begin_ns, work_ns, step_ns, charged_ns;
};

static uint64_t now_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void fail(const char *what)
{
	perror(what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void work(uint64_t turns)
{
	uint64_t product = 1;

	for (uint64_t turn = 0; turn < turns; turn++) {
		product *= 6364136223846793005;
		__asm__ volatile("" : "+r"(product));
	}
}

static void wait_for_all(int is_allreduce)
{
	double mine = 1, all;

	if (is_allreduce)
		MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	else
		MPI_Barrier(MPI_COMM_WORLD);
}

static struct step one_step(uint64_t turns, int is_allreduce)
{
	struct step step;
	uint64_t charged_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);

	step.begin_ns = now_ns(CLOCK_MONOTONIC);
	work(turns);
	step.work_ns = now_ns(CLOCK_MONOTONIC) - step.begin_ns;
	step.charged_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - charged_ns;
	wait_for_all(is_allreduce);
	step.step_ns = now_ns(CLOCK_MONOTONIC) - step.begin_ns;
	return step;
}

static void stay_on(int cpu)
{
	cpu_set_t only;
	struct sched_param priority = {.sched_priority = PRIORITY};

	CPU_ZERO(&only);
	CPU_SET(cpu, &only);
	if (sched_setaffinity(0, sizeof(only), &only))
		fail("sched_setaffinity");
	if (sched_setscheduler(0, SCHED_FIFO, &priority))
		fail("sched_setscheduler");
}

static void write_down(const char *folder, int rank, const struct step *steps, size_t count)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/rank%d", folder, rank);
	file = fopen(path, "w");
	if (!file)
		fail(path);
	for (const struct step *step = steps; step < steps + count; step++)
		fprintf(file, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", step->begin_ns,
			step->work_ns, step->step_ns, step->charged_ns);
	if (fclose(file))
		fail(path);
}

int main(int argc, char **argv)
{
	int rank;

	MPI_Init(&argc, &argv);
	if (argc != 5) {
		fprintf(stderr, "usage: steps TURNS STEPS barrier|allreduce FOLDER\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	stay_on(rank);
	uint64_t turns = strtoull(argv[1], NULL, 10);
	size_t count = strtoull(argv[2], NULL, 10);
	int is_allreduce = strcmp(argv[3], "allreduce") == 0;
	struct step *steps = calloc(count, sizeof(*steps));
	if (!steps)
		fail("calloc");
	/* First, write all pages and connect to the other ranks, so that the measured steps do not
	 * include this time. */
	memset(steps, 1, count * sizeof(*steps));
	for (int step = 0; step < WARM_UP; step++)
		one_step(turns, is_allreduce);
	for (size_t step = 0; step < count; step++)
		steps[step] = one_step(turns, is_allreduce);
	write_down(argv[4], rank, steps, count);
	return MPI_Finalize();
}
