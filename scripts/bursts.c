// A service whose requests arrive in bursts at planned times, whatever the service does (open loop).
// Prints the latencies from the planned arrival to the end: docs/lab/predictions.md.
//
//     gcc -O2 -o bursts bursts.c -lpthread
//     ./bursts WORKERS SECONDS BURST GAP_MS WORK_MS [clock]
//
// A request computes a number of turns that is measured at the start. With `clock` it reads its own CPU time until it has had enough: on
// kernels since 6.6 that ends a time slice where it is used up, and not at the next tick.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 100000, WORKERS_MOST = 64 };

static double planned[MOST];                      // seconds after the start
static int64_t arrived[MOST], work[MOST], latency[MOST]; // nanoseconds
static int first, behind, total;                  // queued requests: first..behind
static double turns_per_ns;
static int by_clock;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static int64_t nanoseconds(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void turn(int64_t turns) {
    for (volatile int64_t one = 0; one < turns; one++) {}
}

// Turns per nanosecond of CPU time: the best of several, since others disturb.
static double measure(void) {
    enum { TURNS = 1000000 };
    int64_t best = INT64_MAX;
    for (int one = 0; one < 8; one++) {
        int64_t begin = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
        turn(TURNS);
        int64_t took = nanoseconds(CLOCK_THREAD_CPUTIME_ID) - begin;
        if (took < best) best = took;
    }
    return (double)TURNS / (double)best;
}

static void *serve(void *unused) {
    (void)unused;
    pthread_setname_np(pthread_self(), "worker");
    for (;;) {
        pthread_mutex_lock(&lock);
        while (first == behind && first < total) pthread_cond_wait(&changed, &lock);
        if (first >= total) {
            pthread_mutex_unlock(&lock);
            return NULL;
        }
        int request = first++;
        pthread_mutex_unlock(&lock);
        if (by_clock) {
            int64_t end = nanoseconds(CLOCK_THREAD_CPUTIME_ID) + work[request];
            while (nanoseconds(CLOCK_THREAD_CPUTIME_ID) < end) turn(2000);
        } else {
            turn((int64_t)((double)work[request] * turns_per_ns));
        }
        latency[request] = nanoseconds(CLOCK_MONOTONIC) - arrived[request];
    }
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    by_clock = argc == 7 && strcmp(argv[6], "clock") == 0;
    if ((argc != 6 && !by_clock) || atoi(argv[1]) < 1 || atoi(argv[1]) > WORKERS_MOST) {
        fprintf(stderr, "usage: %s WORKERS SECONDS BURST GAP_MS WORK_MS [clock]\n", argv[0]);
        return 2;
    }
    int workers = atoi(argv[1]), burst = atoi(argv[3]);
    double seconds = atof(argv[2]), gap = atof(argv[4]) / 1e3, mean = atof(argv[5]) * 1e6;
    unsigned seed = 1;
    // Gaps and demands: half to one and a half of their means.
    for (double at = 0; at < seconds;) {
        at += gap * (0.5 + rand_r(&seed) % 1000 / 1e3);
        for (int one = 0; one < burst && total < MOST; one++, total++) {
            planned[total] = at;
            work[total] = (int64_t)(mean * (0.5 + rand_r(&seed) % 1000 / 1e3));
        }
    }
    turns_per_ns = measure();
    pthread_t threads[WORKERS_MOST];
    for (int one = 0; one < workers; one++) pthread_create(&threads[one], NULL, serve, NULL);
    pthread_setname_np(pthread_self(), "source");
    int64_t start = nanoseconds(CLOCK_MONOTONIC) + 50000000;
    for (int next = 0; next < total;) {
        double at = planned[next];
        int64_t when = start + (int64_t)(at * 1e9);
        struct timespec until = {when / 1000000000, when % 1000000000};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        pthread_mutex_lock(&lock);
        while (next < total && planned[next] == at) arrived[next++] = when;
        behind = next;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    for (int one = 0; one < workers; one++) pthread_join(threads[one], NULL);
    qsort(latency, total, sizeof *latency, compare);
    printf("requests %d p50 %.2fms p90 %.2fms p99 %.2fms max %.2fms\n", total, latency[total / 2] / 1e6,
           latency[total * 9 / 10] / 1e6, latency[total * 99 / 100] / 1e6, latency[total - 1] / 1e6);
    return 0;
}
