// A client for servers of any protocol whose answers all have one length. It sends one request over and over on several connections from one
// thread, and prints how many, for how long, and the latencies.
//
//   client open   PORT CONNECTIONS SEED RATE SECONDS REQUEST GO
//   client closed PORT CONNECTIONS 0    COUNT 0      REQUEST GO
//   client now
//
// `open` sends RATE requests a second at the instants of a Poisson process with that seed, whatever the answers; a latency counts from the instant
// at which a request was to be sent. SECONDS after the first one it stops, also if answers are missing. `closed` keeps one request under way per
// connection, until COUNT are answered. REQUEST has \r, \n and \xHH for bytes; an empty line ends HTTP. Each connection gets one request first: the length
// of its answer is that of all. Then it waits for a line from the pipe GO. `now` prints the clock of traces (CLOCK_MONOTONIC) in ns.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 256, SENT_MAX = 1 << 18, ANSWER_MAX = 1 << 18 };

static int64_t now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

// Requests under way on a connection, in order: the instant of each, as positions in `due`.
struct connection {
    int fd;
    long length; // bytes that came of the current answer
    int first, last;
    int *asked;
};

static struct connection connections[CONNECTIONS_MAX];
static int64_t due[SENT_MAX], latencies[SENT_MAX];
static char request[4096], answer[ANSWER_MAX];
static size_t request_length;
static long answer_length;
static int answered;

// xorshift64*: the same seed sends at the same instants everywhere.
static uint64_t state;
static double uniform(void) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return ((state * 0x2545F4914F6CDD1DULL >> 11) + 0.5) / 9007199254740992.0;
}

static void unescape(const char *text) {
    for (; *text; text++) {
        char byte = *text;
        if (byte == '\\') {
            text++;
            byte = *text == 'r' ? '\r' : *text == 'n' ? '\n' : *text;
            if (*text == 'x') {
                char digits[3] = {text[1], text[2], 0};
                byte = strtol(digits, NULL, 16);
                text += 2;
            }
        }
        request[request_length++] = byte;
    }
}

static void ask(struct connection *of, int number) {
    of->asked[of->last++] = number;
    // A request is shorter than any socket's buffer; an overloaded server's buffers can be full.
    for (size_t sent = 0; sent < request_length;) {
        ssize_t wrote = write(of->fd, request + sent, request_length - sent);
        if (wrote > 0) sent += wrote;
        else if (errno == EAGAIN) usleep(100);
        else fail("write");
    }
}

static void receive(struct connection *of) {
    for (;;) {
        ssize_t came = read(of->fd, answer, sizeof answer);
        if (came == 0) { fprintf(stderr, "the server closed a connection\n"); exit(1); }
        if (came < 0) { if (errno == EAGAIN) return; fail("read"); }
        of->length += came;
        while (of->length >= answer_length && of->first < of->last) {
            of->length -= answer_length;
            latencies[answered++] = now() - due[of->asked[of->first++]];
        }
    }
}

static void open_connection(struct connection *of, int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    // A server that starts is waited for.
    for (int tries = 0;; tries++) {
        of->fd = socket(AF_INET, SOCK_STREAM, 0);
        if (!connect(of->fd, (struct sockaddr *)&to, sizeof to)) break;
        if (tries == 300) fail("connect");
        close(of->fd);
        usleep(100000);
    }
    int one = 1;
    setsockopt(of->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    of->asked = malloc(SENT_MAX * sizeof *of->asked);
    if (write(of->fd, request, request_length) != (ssize_t)request_length) fail("write");
    // All that comes until half a second passes without a byte; later answers have that length.
    struct timeval patience = {.tv_sec = answer_length ? 30 : 1, .tv_usec = 0};
    setsockopt(of->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    long length = 0;
    while (!answer_length || length < answer_length) {
        ssize_t came = read(of->fd, answer, sizeof answer);
        if (came <= 0 && length == 0) fail("first answer");
        if (came <= 0) break;
        length += came;
    }
    if (answer_length && length != answer_length) { fprintf(stderr, "answers have %ld and %ld bytes\n", answer_length, length); exit(1); }
    answer_length = length;
    fcntl(of->fd, F_SETFL, O_NONBLOCK);
}

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int main(int count, char **words) {
    if (count == 2 && !strcmp(words[1], "now")) { printf("%lld\n", (long long)now()); return 0; }
    if (count != 9) { fprintf(stderr, "client open|closed PORT CONNECTIONS SEED RATE|COUNT SECONDS REQUEST GO\n"); return 2; }
    int is_open = !strcmp(words[1], "open"), port = atoi(words[2]), many = atoi(words[3]);
    state = strtoull(words[4], NULL, 10) * 0x9E3779B97F4A7C15ULL + 1;
    double rate = atof(words[5]), seconds = atof(words[6]);
    unescape(words[7]);
    if (many < 1 || many > CONNECTIONS_MAX) return 2;
    for (int at = 0; at < many; at++) open_connection(&connections[at], port);
    int epoll = epoll_create1(0);
    for (int at = 0; at < many; at++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &connections[at]};
        epoll_ctl(epoll, EPOLL_CTL_ADD, connections[at].fd, &event);
    }
    char go[16];
    int pipe = open(words[8], O_RDONLY);
    if (pipe < 0 || read(pipe, go, sizeof go) < 0) fail("go");
    close(pipe);

    int64_t start = now(), next = start, last = start;
    int sent = 0, wanted = is_open ? SENT_MAX : (int)rate;
    if (!is_open) for (int at = 0; at < many && sent < wanted; at++) { due[sent] = now(); ask(&connections[at], sent++); }
    while (answered < wanted) {
        int64_t at = now();
        if (is_open && at - start >= seconds * 1e9) break;
        for (; is_open && next <= at && sent < SENT_MAX; next += -log(uniform()) / rate * 1e9) {
            due[sent] = next;
            ask(&connections[sent % many], sent);
            sent++;
        }
        int64_t wait = is_open ? next - now() : 1000000000LL;
        int64_t left = is_open ? start + (int64_t)(seconds * 1e9) - now() : wait;
        if (left < wait) wait = left;
        if (wait < 0) wait = 0;
        struct timespec timeout = {.tv_sec = wait / 1000000000LL, .tv_nsec = wait % 1000000000LL};
        struct epoll_event events[64];
        int ready = epoll_pwait2(epoll, events, 64, &timeout, NULL);
        if (ready < 0 && errno != EINTR) fail("epoll");
        for (int one = 0; one < ready; one++) {
            struct connection *of = events[one].data.ptr;
            int before = of->first;
            receive(of);
            for (; !is_open && before < of->first && sent < wanted; before++) { due[sent] = now(); ask(of, sent++); }
        }
        if (answered) last = now();
    }
    double took = (is_open ? now() - start : last - start) / 1e9;
    qsort(latencies, answered, sizeof *latencies, by_value);
    double p50 = answered ? latencies[answered / 2] / 1e6 : 0, p99 = answered ? latencies[(int)(answered * 0.99)] / 1e6 : 0;
    printf("sent %d answered %d seconds %.3f p50 %.3f p99 %.3f ms\n", sent, answered, took, p50, p99);
    return 0;
}
