// threads SECONDS CPU...: a process whose threads begin on these CPUs, may then run on any, and compute. Prints for each thread the share of its time
// on each CPU, and when it was seen on another one. For caches.sh.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS = 16, CPUS = 16, LOG = 4096 };
struct thread { int cpu, at; double on[CPUS]; char moves[LOG]; };

static double seconds, start;
static pthread_barrier_t begin;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void allow(int from, int to) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int cpu = from; cpu <= to; cpu++) CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void *compute(void *argument) {
    struct thread *self = argument;
    allow(self->cpu, self->cpu);
    pthread_barrier_wait(&begin);
    allow(0, CPUS - 1);
    int cpu = sched_getcpu();
    self->at = sprintf(self->moves, " %d", cpu);
    for (double last = now(); last < start + seconds;) {
        for (volatile int turn = 0; turn < 20000; turn++) { }
        double time = now();
        int here = sched_getcpu();
        self->on[here] += time - last;
        last = time;
        if (here != cpu && self->at < LOG - 32) self->at += sprintf(self->moves + self->at, ", %.3f: %d", time - start, here);
        cpu = here;
    }
    return NULL;
}

int main(int argc, char **argv) {
    static struct thread threads[THREADS];
    pthread_t ids[THREADS];
    int count = argc - 2;
    if (count < 1 || count > THREADS) return 2;
    seconds = atof(argv[1]);
    start = now() + 0.05;
    pthread_barrier_init(&begin, NULL, count);
    for (int nth = 0; nth < count; nth++) {
        threads[nth].cpu = atoi(argv[2 + nth]);
        pthread_create(&ids[nth], NULL, compute, &threads[nth]);
    }
    for (int nth = 0; nth < count; nth++) pthread_join(ids[nth], NULL);
    for (int nth = 0; nth < count; nth++) {
        printf("  thread %d:", nth);
        for (int cpu = 0; cpu < CPUS; cpu++)
            if (threads[nth].on[cpu] > 0.001) printf(" CPU %d %.0f %%", cpu, 100 * threads[nth].on[cpu] / seconds);
        printf("; at %s\n", threads[nth].moves);
    }
    return 0;
}
