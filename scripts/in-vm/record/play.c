/* Plays a workload on a real kernel, for record.sh: a process per task, which does what the text of plan.py says.
 *
 *   play PLAN
 *
 * `run` is time in which the task computes: the time between two reads of the clock counts if it is short, so interrupts and the turns of other tasks do not
 * count. On two virtual CPUs, which run in turns, the other one's turn takes longer than an interrupt; there a gap counts if the kernel has not switched
 * in it, interrupts included. Asking the kernel for the time (CLOCK_THREAD_CPUTIME_ID) would charge the task then and so move the ends of its time slices;
 * its count of switches does not. A loop of fixed length takes twice its time on two virtual CPUs.
 *
 * All tasks are asleep in the order of the plan before the workload starts at a tick, which makes recordings comparable with simulations, whose
 * ticks begin at zero. Prints that instant (CLOCK_MONOTONIC, in ns).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NAMED = 16, STEPS = 64, PHASES = 16, TASKS = 32, CHANGES = 512, READ_NS = 2000, TURN_NS = 60000 };
enum verb { RUN, SPIN, SLEEP, TIMER, LOCK, UNLOCK, READ, WRITE, BARRIER, YIELD, CHANGE };
struct attr { uint32_t size, policy; uint64_t flags; int32_t nice; uint32_t priority; uint64_t runtime, deadline, period; };
struct step { enum verb verb; uint64_t value; int resource; };
/* Steps from `first` on, `loops` times (0: for ever). It begins with a change of its own task's attributes, if it has some. */
struct phase { int first, steps, sets; uint64_t loops; struct attr attr; };
/* Of another task's attributes: a step `change` makes the next one of the plan's list. */
struct change { int task; struct attr attr; };
struct task { char name[16], group[128]; struct attr attr; uint64_t cpus, delay; int steps, phases; struct step step[STEPS]; struct phase phase[PHASES]; };

static struct task task[TASKS];
static struct change change[CHANGES];
static int tasks, changes, mutexes, pipes, barriers;
static long cpus;
static char mutex_name[NAMED][16], pipe_name[NAMED][16], barrier_name[NAMED][16];
static int pipe_end[NAMED][2];
static uint64_t duration = 4000000000;
static char counted[128];
static uint64_t count_from;
static struct shared { uint64_t origin; pid_t pid[TASKS]; pthread_mutex_t mutex[NAMED]; pthread_barrier_t barrier[NAMED]; } *shared;

static void die(const char *what) { fprintf(stderr, "play: %s: %s\n", what, strerror(errno)); exit(1); }
static uint64_t now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000ull + t.tv_nsec; }
static void sleep_until(uint64_t at) { struct timespec t = { at / 1000000000, at % 1000000000 }; while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, 0) == EINTR); }
static void sleep_for(uint64_t time) { struct timespec t = { time / 1000000000, time % 1000000000 }; while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR); }

static long switches(void) { struct rusage u; getrusage(RUSAGE_THREAD, &u); return u.ru_nvcsw + u.ru_nivcsw; }

static void run(uint64_t left)
{
	long before = cpus > 1 ? switches() : 0;
	uint64_t last = now();
	while (left) {
		uint64_t t = now(), gap = t - last;
		int is_own = gap < (cpus > 1 ? TURN_NS : READ_NS);
		if (!is_own && cpus > 1) {
			long n = switches();
			is_own = n == before;
			before = n;
		}
		if (is_own) left = gap < left ? left - gap : 0;
		last = t;
	}
}

static void play(struct task *me)
{
	char bytes[65536] = { 0 };
	uint64_t next = 0;
	int changed = 0;
	sleep_until(shared->origin + me->delay);
	next = shared->origin + me->delay;
	for (struct phase *p = me->phase; p < me->phase + me->phases; p++) {
		if (p->sets && syscall(SYS_sched_setattr, 0, &p->attr, 0)) die("sched_setattr of a phase");
		for (uint64_t loop = 0; !p->loops || loop < p->loops; loop++) for (int i = p->first; i < p->first + p->steps; i++) {
			struct step *s = &me->step[i];
			switch (s->verb) {
			case RUN: run(s->value); break;
			case SPIN: for (uint64_t end = now() + s->value; now() < end;); break;
			case SLEEP: sleep_for(s->value); break;
			case TIMER:
				next += s->value;
				if (next > now()) sleep_until(next); else next = now();
				break;
			case LOCK: if ((errno = pthread_mutex_lock(&shared->mutex[s->resource]))) die("lock"); break;
			case UNLOCK: if ((errno = pthread_mutex_unlock(&shared->mutex[s->resource]))) die("unlock"); break;
			case READ: if (read(pipe_end[s->resource][0], bytes, s->value) < 1) die("read"); break;
			case WRITE: if (write(pipe_end[s->resource][1], bytes, s->value) < 1) die("write"); break;
			case BARRIER: pthread_barrier_wait(&shared->barrier[s->resource]); break;
			case YIELD: sched_yield(); break;
			case CHANGE:
				if (changed < changes) {
					struct change *c = &change[changed++];
					if (syscall(SYS_sched_setattr, shared->pid[c->task], &c->attr, 0)) die("sched_setattr of another task");
				}
				break;
			}
		}
	}
	errno = ETIME;
	die("the last phase ended");
}

static int named(char (*names)[16], int *count, const char *name)
{
	for (int i = 0; i < *count; i++) if (!strcmp(names[i], name)) return i;
	if (*count == NAMED) { errno = E2BIG; die(name); }
	snprintf(names[*count], 16, "%.15s", name);
	return (*count)++;
}

static void make_mutex(const char *name, int inherits)
{
	pthread_mutexattr_t a;
	int i = named(mutex_name, &mutexes, name);
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	if (inherits) pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT);
	if ((errno = pthread_mutex_init(&shared->mutex[i], &a))) die("mutex");
}

static void make_barrier(const char *name, unsigned parties)
{
	pthread_barrierattr_t a;
	int i = named(barrier_name, &barriers, name);
	pthread_barrierattr_init(&a);
	pthread_barrierattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	if ((errno = pthread_barrier_init(&shared->barrier[i], &a, parties))) die("barrier");
}

static int task_named(const char *name)
{
	for (int i = 0; i < tasks; i++) if (!strcmp(task[i].name, name)) return i;
	errno = ENOENT;
	die(name);
	return 0;
}

static void read_plan(FILE *f)
{
	char line[512], word[6][128];
	struct task *t = 0;
	struct attr *attr = 0; /* of the task, or of the phase that the line is in */
	while (fgets(line, sizeof line, f)) {
		int n = sscanf(line, "%127s %127s %127s %127s %127s %127s", word[0], word[1], word[2], word[3], word[4], word[5]);
		if (n < 1) continue;
		uint64_t v = n > 1 ? strtoull(word[1], 0, 0) : 0;
		if (!strcmp(word[0], "duration")) duration = v;
		else if (!strcmp(word[0], "count")) { snprintf(counted, sizeof counted, "%s", word[1]); count_from = strtoull(word[2], 0, 0); }
		else if (!strcmp(word[0], "mutex")) make_mutex(word[1], n > 2);
		else if (!strcmp(word[0], "parties")) make_barrier(word[1], strtoul(word[2], 0, 0));
		else if (!strcmp(word[0], "task")) {
			t = &task[tasks++];
			attr = &t->attr;
			attr->size = 48;
			snprintf(t->name, sizeof t->name, "%.15s", word[1]);
		}
		else if (!strcmp(word[0], "changes")) {
			if (changes == CHANGES) { errno = E2BIG; die("changes"); }
			change[changes] = (struct change) { .task = task_named(word[1]), .attr.size = 48 };
			attr = &change[changes++].attr;
			t = 0;
		}
		else if (!strcmp(word[0], "phase")) {
			if (t->phases == PHASES) { errno = E2BIG; die("phases"); }
			t->phase[t->phases++] = (struct phase) { .first = t->steps, .loops = v, .attr.size = 48 };
			attr = &t->phase[t->phases - 1].attr;
		}
		else if (!strcmp(word[0], "policy")) { attr->policy = v; if (t && t->phases) t->phase[t->phases - 1].sets = 1; }
		else if (!strcmp(word[0], "nice")) attr->nice = strtol(word[1], 0, 10);
		else if (!strcmp(word[0], "priority")) attr->priority = v;
		else if (!strcmp(word[0], "runtime")) attr->runtime = v;
		else if (!strcmp(word[0], "deadline")) attr->deadline = v;
		else if (!strcmp(word[0], "period")) attr->period = v;
		else if (!strcmp(word[0], "cpus")) t->cpus = v;
		else if (!strcmp(word[0], "delay")) t->delay = v;
		else if (!strcmp(word[0], "group")) snprintf(t->group, sizeof t->group, "%s", word[1]);
		else {
			if (!t || t->steps == STEPS || !t->phases) { errno = E2BIG; die("steps"); }
			struct step *s = &t->step[t->steps++];
			t->phase[t->phases - 1].steps++;
			static const char *verbs[] = { "run", "spin", "sleep", "timer", "lock", "unlock", "read", "write", "barrier", "yield", "change" };
			for (s->verb = RUN; s->verb <= CHANGE && strcmp(word[0], verbs[s->verb]); s->verb++);
			if (s->verb > CHANGE) { errno = EINVAL; die(word[0]); }
			if (s->verb == LOCK || s->verb == UNLOCK) s->resource = named(mutex_name, &mutexes, word[1]);
			else if (s->verb == BARRIER) s->resource = named(barrier_name, &barriers, word[1]);
			else if (s->verb == READ || s->verb == WRITE) { s->resource = named(pipe_name, &pipes, word[1]); s->value = strtoull(word[2], 0, 0); }
			else s->value = v;
		}
	}
}

/* The counters of a group's cpu.stat at the beginning and at the end of a window. */
static void count(const char *when)
{
	char line[128], key[64];
	unsigned long long v;
	FILE *f = fopen(counted, "r");
	if (!f) die(counted);
	while (fgets(line, sizeof line, f)) if (sscanf(line, "%63s %llu", key, &v) == 2) printf("%s.%s %llu\n", when, key, v);
	fclose(f);
}

/* The next tick of this CPU: the timer of the tick, in /proc/timer_list; 0 while it is being handled. */
static uint64_t listed_tick(void)
{
	char line[512];
	uint64_t at = 0;
	FILE *f = fopen("/proc/timer_list", "r");
	int is_tick = 0;
	if (!f) die("/proc/timer_list");
	while (!at && fgets(line, sizeof line, f)) {
		char *expires = strstr(line, "expires at ");
		if (strstr(line, "tick_sched_timer") || strstr(line, "tick_nohz_handler")) is_tick = 1;
		else if (is_tick && expires) at = strtoull(expires + 11, 0, 10);
	}
	fclose(f);
	return at;
}

static uint64_t next_tick(void)
{
	for (int i = 0; i < 100; i++) {
		uint64_t at = listed_tick();
		if (at) return at;
		usleep(1500);
	}
	errno = ENOENT;
	die("no tick in /proc/timer_list");
	return 0;
}

int main(int argc, char **argv)
{
	pid_t pid[TASKS];
	/* Its children are not urgent: they are created as tasks of the fair class (SCHED_FLAG_RESET_ON_FORK), with the virtual runtime of such tasks. */
	struct attr urgent = { .size = 48, .policy = SCHED_FIFO, .priority = 98, .flags = 1 };
	shared = mmap(0, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	FILE *f = argc > 1 ? fopen(argv[1], "r") : 0;
	if (!f || shared == MAP_FAILED) die("plan");
	read_plan(f);
	cpus = sysconf(_SC_NPROCESSORS_ONLN);
	for (int i = 0; i < pipes; i++) if (pipe(pipe_end[i])) die("pipe");
	/* This process sleeps while the workload runs; at its end it must get a CPU. */
	if (syscall(SYS_sched_setattr, 0, &urgent, 0)) die("sched_setattr");
	uint64_t tick = next_tick();
	while (tick < now() + 300000000) tick += 4000000;
	shared->origin = tick;
	for (int i = 0; i < tasks; i++) {
		if (!(pid[i] = fork())) {
			struct task *t = &task[i];
			cpu_set_t set;
			prctl(PR_SET_NAME, t->name);
			prctl(PR_SET_TIMERSLACK, 1);
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (*t->group) {
				FILE *g = fopen(t->group, "w");
				if (!g || fprintf(g, "%d", getpid()) < 0 || fclose(g)) die(t->group);
			}
			CPU_ZERO(&set);
			for (int c = 0; c < 64; c++) if (t->cpus >> c & 1) CPU_SET(c, &set);
			if (t->cpus && sched_setaffinity(0, sizeof set, &set)) die("sched_setaffinity");
			if (syscall(SYS_sched_setattr, 0, &t->attr, 0)) die("sched_setattr of the task");
			play(t);
		}
		shared->pid[i] = pid[i];
		sleep_for(3000000);
	}
	printf("origin %llu\n", (unsigned long long)shared->origin);
	fflush(stdout);
	if (now() > shared->origin) { errno = ETIME; die("too many tasks for the time before the start"); }
	if (*counted) { sleep_until(shared->origin + count_from); count("from"); }
	sleep_until(shared->origin + duration);
	if (*counted) count("to");
	for (int i = 0; i < tasks; i++) kill(pid[i], SIGKILL);
	for (int i = 0; i < tasks; i++) {
		int status;
		waitpid(pid[i], &status, 0);
		if (WIFEXITED(status)) { fprintf(stderr, "play: %s ended early\n", task[i].name); return 1; }
	}
	return 0;
}
