/* The loop of the load generators of all protocols: when something is sent, and what is measured meanwhile.
 *
 * Included after `struct pair`, which has a publisher and a consumer connection; a pair without a consumer has no
 * socket for it.  Each generator defines what is declared here. */
#ifndef BENCH_LOOP_H
#define BENCH_LOOP_H

#include "load.h"

static struct pair *pairs;
static struct histogram delivery, confirmation;
static uint64_t now, begun, consumed_total;
static uint64_t ring;                  /* of confirms, a power of two */
static bool measuring, stopping;
static uint8_t *content;

/* How many messages a pair may send now, and sends them. */
static uint64_t permitted(struct pair *p);
static void publish(struct pair *p);
/* Whether a pair is told to wait, so that it need not be woken for a message that is due. */
static bool is_blocked(const struct pair *p);
static void take_frames(struct connection *c);
/* Messages that were sent and are neither received nor refused, and unconfirmed ones. */
static uint64_t outstanding(void);
/* What else to say when nothing arrives. */
static const char *stalled(void);

static uint64_t due_at(uint64_t nth) { return begun + (uint64_t)((double)nth * SECOND * option.pairs / option.rate); }

/* How many messages of `room` a pair may send at a fixed rate. */
static uint64_t paced(struct pair *p, uint64_t room)
{
    uint64_t due = (uint64_t)((double)(now - begun) * option.rate / option.pairs / SECOND) + 1 - p->published;
    p->behind = p->behind ? due > 1 : due > room;
    return room < due ? room : due;
}

static uint32_t next_size(struct pair *p)
{
    if (option.low == option.high)
        return option.low;
    p->random ^= p->random << 13;
    p->random ^= p->random >> 7;
    p->random ^= p->random << 17;
    return option.low + (uint32_t)((p->random >> 32) * (option.high - option.low + 1) >> 32);
}

/* Waits until a socket is ready, the next message of a fixed rate is due, or 10 ms passed. */
static void wait_for_work(struct pollfd *fds)
{
    uint64_t wait = 10000000;
    for (uint32_t i = 0; i < option.pairs; i++) {
        struct pair *p = &pairs[i];
        fds[2 * i] = (struct pollfd){.fd = p->publisher.fd, .events = POLLIN};
        fds[2 * i + 1] = (struct pollfd){.fd = p->consumer.fd > 0 ? p->consumer.fd : -1, .events = POLLIN};
        if (p->publisher.out.start < p->publisher.out.end)
            fds[2 * i].events |= POLLOUT;
        else if (option.rate > 0 && !stopping && !is_blocked(p) && !p->behind) {
            uint64_t due = due_at(p->published);
            wait = due <= now ? 0 : due - now < wait ? due - now : wait;
        } else if (permitted(p))
            wait = 0;
        if (p->consumer.out.start < p->consumer.out.end)
            fds[2 * i + 1].events |= POLLOUT;
    }
    struct timespec timeout = {.tv_nsec = (long)wait};
    if (ppoll(fds, 2 * option.pairs, &timeout, NULL) < 0 && errno != EINTR)
        die("poll: %s", strerror(errno));
}

static void turn(struct pollfd *fds)
{
    wait_for_work(fds);
    for (uint32_t i = 0; i < option.pairs; i++) {
        struct connection *two[] = {&pairs[i].publisher, &pairs[i].consumer};
        for (int j = 0; j < 2; j++)
            if (fds[2 * i + (uint32_t)j].revents & (POLLIN | POLLHUP | POLLERR) && receive(two[j])) {
                now = clock_ns();
                take_frames(two[j]);
            }
        if (pairs[i].consumer.fd > 0)
            flush(&pairs[i].consumer);
    }
    now = clock_ns();
    for (uint32_t i = 0; i < option.pairs; i++)
        publish(&pairs[i]);
    now = clock_ns();
}

static struct edge edge(void) { return (struct edge){broker_cpu(), own_cpu(), consumed_total, clock_ns()}; }

static void run_until(struct pollfd *fds, uint64_t until, bool drain)
{
    uint64_t seen = consumed_total, seen_at = now;
    while (drain ? outstanding() > 0 : now < until) {
        turn(fds);
        if (consumed_total != seen || !option.consumes) {
            seen = consumed_total;
            seen_at = now;
        } else if ((double)(now - seen_at) / SECOND > option.stall) {
            die("nothing arrived for %g s; %llu messages are outstanding%s", option.stall,
                (unsigned long long)outstanding(), stalled());
        }
    }
}

/* Fills the octets that bodies are made of, and makes room for the pairs. */
static void prepare(size_t pair_size)
{
    prctl(PR_SET_TIMERSLACK, 1ul);     /* a fixed rate's wake-ups to the microsecond, not to 50 of them */
    content = malloc(option.high + SMALLEST_BODY);
    for (uint32_t i = 0; i < option.high; i++)
        content[i] = (uint8_t)(i * 31 + 7);
    pairs = calloc(option.pairs, pair_size);
}

/* Makes the ring of confirms a power of two that a window fits into four times. */
static void size_ring(uint64_t window)
{
    for (ring = 1 << 12; ring < 4 * window; ring *= 2)
        ;
}

/* Warms up, measures, and lets what is under way arrive. */
static void measure(struct pollfd *fds, struct edge *first, struct edge *last)
{
    run_until(fds, begun + (uint64_t)(option.warm_up * SECOND), false);
    *first = edge();
    measuring = true;
    run_until(fds, first->at + (uint64_t)(option.seconds * SECOND), false);
    *last = edge();
    measuring = false;
    stopping = true;
    if (option.consumes)
        run_until(fds, 0, true);
}

/* Begins the line of results: what was measured whatever the protocol. */
static void print_measured(struct edge a, struct edge b)
{
    uint64_t messages = b.messages - a.messages;
    double seconds = (double)(b.at - a.at) / SECOND;
    printf("{\"messages\": %llu, \"seconds\": %.4f, \"rate\": %.1f, \"broker_cpu\": %.3f, \"own_cpu\": %.3f",
           (unsigned long long)messages, seconds, (double)messages / seconds, b.broker - a.broker, b.own - a.own);
}

/* Ends the line of results. */
static void print_latencies(void)
{
    print_latency("latency_us", &delivery);
    if (option.window)
        print_latency("confirm_us", &confirmation);
    puts("}");
}

#endif
