/* What the load generators of all protocols have in common: their options, their clocks, and what they measure. */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include "amqp.h"

#include <getopt.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

enum { SMALLEST_BODY = 16, MOST_PAIRS = 512, MOST_QUEUES = 999, MOST_PIDS = 64, HISTOGRAM = 64 * 60, WRITES_PER_TURN = 4 };
#define SECOND 1000000000ull

static struct {
    const char *host, *port, *vhost, *user, *password, *queue, *properties;
    uint32_t pairs, low, high, batch, ack, prefetch, window, delivery_mode;
    uint64_t in_flight;
    double rate, warm_up, seconds, stall;
    const char *arguments[16];
    int argument_count, pids[MOST_PIDS], pid_count;
    bool durable;
    const char *prefix, *sasl;         /* AMQP 1.0 alone, as what follows */
    uint32_t links;
    bool declared, one_queue, consumes, idle;
    const char *name;
    const char *exchange;              /* AMQP 0-9-1 alone, as what follows */
    uint32_t queues, bindings;
} option = {"127.0.0.1", "5672", "/", "guest", "guest", "bench", "plain", 1, 100, 100, 256, 100, 1000, 0, 1,
            20000, 0, 1, 3, 30, {0}, 0, {0}, 0, false, "", "PLAIN", 1, true, false, true, false, NULL, NULL, 1, 0};

/* Times in ns: 64 steps per power of two, so every value is kept to 1.6 %. */
struct histogram { uint64_t counts[HISTOGRAM], total, largest; };

static uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

static void record(struct histogram *h, uint64_t ns)
{
    int shift = ns < 128 ? 0 : 57 - __builtin_clzll(ns);
    h->counts[(uint64_t)shift * 64 + (ns >> shift)]++;
    h->total++;
    if (ns > h->largest)
        h->largest = ns;
}

static double percentile_us(const struct histogram *h, double share)
{
    uint64_t rank = (uint64_t)((double)h->total * share), seen = 0;
    for (uint64_t i = 0; i < HISTOGRAM; i++) {
        seen += h->counts[i];
        if (seen > rank) {
            uint64_t shift = i < 128 ? 0 : i / 64 - 1;
            return (double)((i - shift * 64) << shift) / 1000;
        }
    }
    return (double)h->largest / 1000;
}

/* Processor time in seconds of the processes that --pid named: utime + stime of proc(5). A helper of a broker may end
   meanwhile: then what it had taken when it was last seen counts. */
static double broker_cpu(void)
{
    static unsigned long long seen[MOST_PIDS];
    static int is_begun;
    unsigned long long user, system, ticks = 0;
    for (int i = 0; i < option.pid_count; i++) {
        char path[64], line[1024];
        snprintf(path, sizeof path, "/proc/%d/stat", option.pids[i]);
        FILE *f = fopen(path, "r");
        char *after = f && fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
        if (after && sscanf(after + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system) == 2)
            seen[i] = user + system;
        else if (!is_begun)
            die("there is no process %d", option.pids[i]);
        if (f)
            fclose(f);
        ticks += seen[i];
    }
    is_begun = 1;
    return (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

static double own_cpu(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

struct edge { double broker, own; uint64_t messages, at; };

static void print_latency(const char *name, const struct histogram *h)
{
    printf(", \"%s\": {\"p50\": %.1f, \"p99\": %.1f, \"max\": %.1f, \"count\": %llu}", name, percentile_us(h, 0.5),
           percentile_us(h, 0.99), (double)h->largest / 1000, (unsigned long long)h->total);
}

static void set_sizes(const char *text)
{
    if (sscanf(text, "uniform:%u:%u", &option.low, &option.high) != 2)
        option.low = option.high = (uint32_t)strtoul(text, NULL, 10);
    if (option.low < SMALLEST_BODY || option.high < option.low || option.high > 1u << 28)
        die("--sizes %s: N or uniform:A:B with 16 <= A <= B is wanted", text);
}

/* Options that every generator has; false for any other. */
static bool set_option(int which, char *value)
{
    switch (which) {
    case 'h': option.host = value; break;
    case 'p': option.port = value; break;
    case 'v': option.vhost = value; break;
    case 'u': option.user = value; break;
    case 'P': option.password = value; break;
    case 'q': option.queue = value; break;
    case 'n': option.pairs = (uint32_t)strtoul(value, NULL, 10); break;
    case 's': set_sizes(value); break;
    case 'b': option.batch = (uint32_t)strtoul(value, NULL, 10); break;
    case 'a': option.ack = (uint32_t)strtoul(value, NULL, 10); break;
    case 'f': option.prefetch = (uint32_t)strtoul(value, NULL, 10); break;
    case 'i': option.in_flight = strtoull(value, NULL, 10); break;
    case 'c': option.window = (uint32_t)strtoul(value, NULL, 10); break;
    case 'r': option.rate = strtod(value, NULL); break;
    case 'x': option.properties = value; break;
    case 'D': option.durable = true; break;
    case 'd': option.delivery_mode = (uint32_t)strtoul(value, NULL, 10); break;
    case 'w': option.warm_up = strtod(value, NULL); break;
    case 't': option.seconds = strtod(value, NULL); break;
    case 'S': option.stall = strtod(value, NULL); break;
    case 'A': if (option.argument_count < 16) option.arguments[option.argument_count++] = value; break;
    case 'I': if (option.pid_count < MOST_PIDS) option.pids[option.pid_count++] = atoi(value); break;
    default: return false;
    }
    return true;
}

#define COMMON_OPTIONS \
    {"host", 1, 0, 'h'}, {"port", 1, 0, 'p'}, {"vhost", 1, 0, 'v'}, {"user", 1, 0, 'u'}, {"password", 1, 0, 'P'}, \
    {"queue", 1, 0, 'q'}, {"argument", 1, 0, 'A'}, {"pairs", 1, 0, 'n'}, {"sizes", 1, 0, 's'}, {"batch", 1, 0, 'b'}, \
    {"ack", 1, 0, 'a'}, {"prefetch", 1, 0, 'f'}, {"in-flight", 1, 0, 'i'}, {"confirms", 1, 0, 'c'}, {"rate", 1, 0, 'r'}, \
    {"properties", 1, 0, 'x'}, {"delivery-mode", 1, 0, 'd'}, {"warm-up", 1, 0, 'w'}, {"seconds", 1, 0, 't'}, \
    {"durable", 0, 0, 'D'}, {"stall", 1, 0, 'S'}, {"pid", 1, 0, 'I'}, {"help", 0, 0, '?'}

/* One bound queue's arguments as an AMQP 0-9-1 table. */
static void put_queue_arguments(struct buffer *b)
{
    size_t table = begin_table(b);
    for (int i = 0; i < option.argument_count; i++) {
        char name[128];
        long long value;
        if (sscanf(option.arguments[i], "%127[^=]=%lld", name, &value) != 2)
            die("--argument %s: name=integer is wanted", option.arguments[i]);
        put_short(b, name);
        put8(b, 'l');
        put64(b, (uint64_t)value);
    }
    end_table(b, table);
}

#endif
