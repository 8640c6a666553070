/* Load generator: pairs of one publisher and one consumer connection, each pair on queues of its own, in one thread.
 *
 * A publisher fills a buffer with many messages and writes it at once; a consumer reads up to 256 KiB, checks that
 * every message arrives once and in order, and acknowledges `multiple` every N.  What is published and not yet
 * delivered stays below --in-flight, so that a broker is measured while it works and not while it hoards.
 * After the warm-up a window of --seconds is measured: messages counted at the consumers, processor time of the
 * processes --pid at its edges, read here so that no other program's delay falls into it.
 * Prints one line of JSON; any error prints one sentence and exits with 1. */
#define _GNU_SOURCE
#include "load.h"

struct pair {
    struct connection publisher, consumer;
    char queue[64];
    uint8_t *method, *header;          /* the publish method's frames and the content headers', one for each binding */
    size_t method_size, header_size, id_at;
    uint64_t published, consumed, refused, random;
    uint64_t expected[MOST_QUEUES];    /* the number of the next message from each queue */
    uint32_t from;                     /* the queue of what is being delivered */
    uint64_t delivery_tag, stamp, sequence;
    uint32_t unacked;
    uint64_t blocked_since;
    bool behind;
    uint64_t lowest, unconfirmed;      /* confirms: all tags below `lowest` are settled */
    bool *settled;
    uint64_t *stamps;
};

#include "loop.h"

static uint64_t nacked, returned, blocks, blocked_ns;
static uint64_t copies = 1;            /* of a message: one, or one for each queue */

static bool is_type(const char *type) { return option.exchange && !strcmp(option.exchange, type); }

static uint64_t flying(const struct pair *p) { return (p->published - p->refused) * copies - p->consumed; }

/* ---- what arrives ------------------------------------------------------------------------------------------ */

static void settle_tag(struct pair *p, uint64_t tag)
{
    if (p->settled[tag & (ring - 1)])
        return;
    p->settled[tag & (ring - 1)] = true;
    p->unconfirmed--;
    if (measuring)
        record(&confirmation, now - p->stamps[tag & (ring - 1)]);
}

static void confirmed(struct pair *p, uint64_t tag, bool multiple, bool negative)
{
    if (!option.window || tag < p->lowest || tag > p->published)
        die("a confirm for the delivery tag %llu, which is not outstanding", (unsigned long long)tag);
    uint64_t before = p->unconfirmed;
    for (uint64_t t = multiple ? p->lowest : tag; t <= tag; t++)
        settle_tag(p, t);
    while (p->lowest <= p->published && p->settled[p->lowest & (ring - 1)])
        p->lowest++;
    if (negative) {
        p->refused += before - p->unconfirmed;
        nacked += before - p->unconfirmed;
    }
}

static void unblocked(struct pair *p)
{
    if (p->blocked_since)
        blocked_ns += now - p->blocked_since;
    p->blocked_since = 0;
}

static void handle_method(struct connection *c, uint32_t method, const uint8_t *args, uint32_t size)
{
    struct pair *p = c->pair;
    if (method == CONNECTION_CLOSE || method == CHANNEL_CLOSE)
        die("the broker closed the %s's %s with %u: %.*s", c->consumes ? "consumer" : "publisher",
            method == CONNECTION_CLOSE ? "connection" : "channel", get16(args), args[2], (const char *)args + 3);
    else if (method == CONNECTION_BLOCKED && !c->consumes && !p->blocked_since)
        blocks++, p->blocked_since = clock_ns();
    else if (method == CONNECTION_UNBLOCKED && !c->consumes)
        unblocked(p);
    else if (method == CONNECTION_BLOCKED || method == CONNECTION_UNBLOCKED)
        return;
    else if (method == BASIC_ACK || method == BASIC_NACK)
        confirmed(p, get64(args), args[8] & 1, method == BASIC_NACK);
    else if (method == BASIC_RETURN)
        returned++, p->refused++;
    else if (method == BASIC_CANCEL)
        die("the broker cancelled the consumer of %s", p->queue);
    else
        die("the broker sent the method %u.%u (%u octets), which nobody asked for", method >> 16, method & 65535, size);
}

static void acknowledge(struct connection *c, uint64_t tag, bool multiple)
{
    static const uint8_t frame[21] = {FRAME_METHOD, 0, 1, 0, 0, 0, 13, 0, 60, 0, 80, [20] = FRAME_END};
    uint8_t *out = reserve(&c->out, sizeof frame);
    memcpy(out, frame, sizeof frame);
    set64(out + 11, tag);
    out[19] = multiple;
    c->out.end += sizeof frame;
}

static inline void delivered(struct connection *c)
{
    struct pair *p = c->pair;
    if (!c->consumes)                  /* the content of a returned message */
        return;
    uint64_t *expected = &p->expected[p->from];
    if (p->sequence < *expected || (p->sequence > *expected && !p->refused))
        die("message %llu of %s arrived where %llu was expected", (unsigned long long)p->sequence, p->queue,
            (unsigned long long)*expected);
    *expected = p->sequence + option.queues / copies;
    p->consumed++;
    consumed_total++;
    if (measuring)
        record(&delivery, now - p->stamp);
    if (option.ack && ++p->unacked == option.ack) {
        p->unacked = 0;
        acknowledge(c, p->delivery_tag, option.ack > 1);
    }
}

static inline void take_body(struct connection *c, const uint8_t *body, uint32_t size)
{
    if (c->body_begins && c->consumes) {
        if (size < SMALLEST_BODY)
            die("a body of %u octets is not one of ours", size);
        c->pair->sequence = get64(body);
        c->pair->stamp = get64(body + 8);
    }
    c->body_begins = false;
    if (size > c->body_left)
        die("a body is longer than its header announced");
    c->body_left -= size;
    if (!c->body_left)
        delivered(c);
}

static void take_frames(struct connection *c)
{
    size_t frame;
    const uint8_t *p = c->in.data + c->in.start, *end = c->in.data + c->in.end;
    for (; (frame = whole_frame(c, p, (size_t)(end - p))); p += frame) {
        if (p[0] == FRAME_BODY) {
            take_body(c, p + 7, (uint32_t)frame - FRAME_OVERHEAD);
        } else if (p[0] == FRAME_HEADER) {
            c->body_left = get64(p + 11);
            c->body_begins = true;
            if (!c->body_left)
                delivered(c);
        } else if (p[0] == FRAME_METHOD && get32(p + 7) == BASIC_DELIVER) {
            c->pair->delivery_tag = get64(p + 12 + p[11]);
            c->pair->from = (uint32_t)((p[12] - '0') * 100 + (p[13] - '0') * 10 + p[14] - '0');
        } else if (p[0] == FRAME_METHOD) {
            handle_method(c, get32(p + 7), p + 11, (uint32_t)frame - 12);
        } else if (p[0] != FRAME_HEARTBEAT) {
            die("a frame of unknown type %d", p[0]);
        }
    }
    c->in.start = (size_t)(p - c->in.data);
}

/* ---- what is published ------------------------------------------------------------------------------------- */

static const char *queue_of(const struct pair *p, uint32_t number)
{
    static char name[80];
    snprintf(name, sizeof name, "%s.%03u", p->queue, number % option.queues);
    return name;
}

/* The routing key of messages for a binding, or the binding's pattern: wildcards in all places, one match for a key. */
static const char *key_of(const struct pair *p, uint32_t binding, bool pattern)
{
    static char key[80];
    uint32_t kind = pattern ? binding % 4 : 4, region = binding % 10, site = binding % 50;
    if (!is_type("topic"))
        return queue_of(p, binding);
    snprintf(key, sizeof key, "%c%.*u.%c%.*u.d%05u.%s", kind == 2 ? '*' : 'r', kind != 2, kind == 2 ? 0 : region,
             kind == 3 ? '*' : 's', 2 * (kind != 3), kind == 3 ? 0 : site, binding,
             kind == 4 ? "temperature" : kind % 3 ? "#" : "*");
    return key;
}

/* The headers of messages for a binding of a headers exchange, which asks for all of them; else none. */
static void put_headers(struct buffer *b, uint32_t binding)
{
    size_t table = begin_table(b);
    if (is_type("headers")) {
        put(b, "\7x-matchS\0\0\0\3all\6regionI", 24);
        put32(b, binding % 10);
        put(b, "\6deviceI", 8);
        put32(b, binding);
    }
    end_table(b, table);
}

static void put_header_frame(struct pair *p, struct buffer *b, uint32_t binding)
{
    bool distinct = !strcmp(option.properties, "distinct"), none = !strcmp(option.properties, "none");
    bool headers = is_type("headers");
    size_t start = b->end;
    put8(b, FRAME_HEADER);
    put16(b, 1);
    size_t frame = begin_table(b);
    put32(b, 60u << 16);
    put64(b, 0);
    /* content-type, headers, delivery-mode, message-id */
    put16(b, (uint16_t)((distinct ? 0x8080 : 0) | (headers ? 0x2000 : 0) | (none ? 0 : 0x1000)));
    if (distinct)
        put_short(b, "application/octet-stream");
    if (headers)
        put_headers(b, binding);
    if (!none)
        put8(b, (uint8_t)option.delivery_mode);
    p->id_at = distinct ? b->end + 1 - start : 0;
    if (distinct)
        put_short(b, "0123456789abcdef");
    end_method(b, frame);
}

static void prepare_templates(struct pair *p)
{
    struct buffer methods = {0}, headers = {0};
    for (uint32_t i = 0; i < option.bindings; i++) {
        size_t frame = begin_method(&methods, 1, BASIC_PUBLISH);
        put16(&methods, 0);
        put_short(&methods, option.exchange ? p->queue : "");
        put_short(&methods, key_of(p, i, false));
        put8(&methods, 0);
        end_method(&methods, frame);
        put_header_frame(p, &headers, i);
    }
    p->method = methods.data;
    p->method_size = methods.end / option.bindings;
    p->header = headers.data;
    p->header_size = headers.end / option.bindings;
}

static inline uint8_t *put_body_frame(uint8_t *o, const uint8_t *from, uint32_t size)
{
    o[0] = FRAME_BODY;
    set16(o + 1, 1);
    set32(o + 3, size);
    memcpy(o + 7, from, size);
    o[7 + size] = FRAME_END;
    return o + size + FRAME_OVERHEAD;
}

static inline uint8_t *put_message(struct pair *p, uint8_t *o, uint64_t stamp)
{
    static const char hex[] = "0123456789abcdef";
    uint32_t size = next_size(p), most = p->publisher.frame_max - FRAME_OVERHEAD;
    uint64_t sequence = p->published++, binding = sequence % option.bindings;
    memcpy(o, p->method + binding * p->method_size, p->method_size);
    o += p->method_size;
    memcpy(o, p->header + binding * p->header_size, p->header_size);
    set64(o + 11, size);
    if (p->id_at)
        for (int i = 0; i < 16; i++)
            o[p->id_at + (size_t)i] = (uint8_t)hex[sequence >> (60 - 4 * i) & 15];
    o += p->header_size;
    uint8_t *body = o + 7;
    for (uint32_t sent = 0; sent < size; sent += most)
        o = put_body_frame(o, content + sent, size - sent < most ? size - sent : most);
    set64(body, sequence);
    set64(body + 8, stamp);
    if (option.window) {
        p->settled[p->published & (ring - 1)] = false;
        p->stamps[p->published & (ring - 1)] = stamp;
        p->unconfirmed++;
    }
    return o;
}

/* How many messages may be published now: none while blocked, the room in flight and in the confirm window, and
 * in a fixed rate what is due.  Without rate and window it waits for room for a whole batch: small writes would
 * measure the system calls of the broker instead of its messages. */
static uint64_t permitted(struct pair *p)
{
    uint64_t share = option.in_flight / option.pairs, under_way = flying(p);
    uint64_t room = under_way < share ? (share - under_way) / copies : 0;
    if (stopping || p->blocked_since)
        return 0;
    if (option.window) {
        uint64_t span = p->published + 1 - p->lowest;
        uint64_t window = p->unconfirmed < option.window ? option.window - p->unconfirmed : 0;
        room = room < window ? room : window;
        room = room < ring - span ? room : ring - span;
    }
    if (option.rate > 0) {
        room = paced(p, room);
    } else if (!option.window && room < option.batch) {
        return 0;
    }
    return room < option.batch ? room : option.batch;
}

static void publish(struct pair *p)
{
    struct connection *c = &p->publisher;
    size_t most = p->method_size + p->header_size + option.high +
                  (option.high / (c->frame_max - FRAME_OVERHEAD) + 1) * FRAME_OVERHEAD;
    for (int writes = 0; writes < WRITES_PER_TURN; writes++) {
        if (c->out.start < c->out.end)
            flush(c);
        if (c->out.start < c->out.end) {
            p->behind = true;
            return;
        }
        uint64_t count = permitted(p);
        if (!count)
            return;
        uint8_t *o = reserve(&c->out, most * count);
        /* A message that waited because the broker was not reading counts from the moment when it was due. */
        for (uint64_t stamp = clock_ns(); count--;)
            o = put_message(p, o, p->behind && option.rate > 0 ? due_at(p->published) : stamp);
        c->out.end = (size_t)(o - c->out.data);
        flush(c);
    }
}

/* ---- set-up and the loop ----------------------------------------------------------------------------------- */

/* Ends a method, sends what is waiting and waits for the answer. */
static void ask(struct connection *c, size_t frame, uint32_t answer)
{
    const uint8_t *args;
    uint32_t size;
    end_method(&c->out, frame);
    await(c, answer, &args, &size);
}

/* An exchange that goes with its last queue, and its bindings; only the last of them is answered. */
static void bind_queues(struct pair *p)
{
    struct buffer *b = &p->publisher.out;
    size_t frame = begin_method(b, 1, EXCHANGE_DECLARE);
    put16(b, 0);
    put_short(b, p->queue);
    put_short(b, option.exchange);
    put8(b, 4);
    put32(b, 0);
    ask(&p->publisher, frame, EXCHANGE_DECLARE_OK);
    for (uint32_t i = 0, last = option.bindings - 1; i <= last; i++) {
        frame = begin_method(b, 1, QUEUE_BIND);
        put16(b, 0);
        put_short(b, queue_of(p, i));
        put_short(b, p->queue);
        put_short(b, key_of(p, i, true));
        put8(b, i < last);
        put_headers(b, i);
        if (i < last)
            end_method(b, frame);
    }
    ask(&p->publisher, frame, QUEUE_BIND_OK);
}

static void declare(struct pair *p)
{
    struct buffer *b = &p->publisher.out;
    size_t frame;
    for (uint32_t i = 0; i < option.queues; i++) {
        p->expected[i] = copies > 1 ? 0 : i;
        frame = begin_method(b, 1, QUEUE_DECLARE);
        put16(b, 0);
        put_short(b, queue_of(p, i));
        put8(b, option.durable ? 2 : 0);
        put_queue_arguments(b);
        ask(&p->publisher, frame, QUEUE_DECLARE_OK);
    }
    if (option.exchange)
        bind_queues(p);
    if (option.window) {
        frame = begin_method(b, 1, CONFIRM_SELECT);
        put8(b, 0);
        ask(&p->publisher, frame, CONFIRM_SELECT_OK);
    }
}

static void consume(struct pair *p)
{
    struct buffer *b = &p->consumer.out;
    size_t frame = begin_method(b, 1, BASIC_QOS);
    put32(b, 0);
    put16(b, (uint16_t)option.prefetch);
    put8(b, 0);
    ask(&p->consumer, frame, BASIC_QOS_OK);
    for (uint32_t i = 0; i < option.queues; i++) {
        char tag[16];
        snprintf(tag, sizeof tag, "%03u", i);
        frame = begin_method(b, 1, BASIC_CONSUME);
        put16(b, 0);
        put_short(b, queue_of(p, i));
        put_short(b, tag);
        put8(b, option.ack ? 0 : 2);
        put32(b, 0);
        ask(&p->consumer, frame, BASIC_CONSUME_OK);
    }
}

static void open_pair(struct pair *p, uint32_t number)
{
    p->publisher.pair = p->consumer.pair = p;
    p->consumer.consumes = true;
    p->lowest = 1;
    p->random = 0x9E3779B97F4A7C15ull * (number + 1);
    snprintf(p->queue, sizeof p->queue, "%s.%d.%u", option.queue, (int)getpid(), number);
    connect_to(&p->publisher, option.host, option.port);
    connect_to(&p->consumer, option.host, option.port);
    open_connection(&p->publisher, option.user, option.password, option.vhost);
    open_connection(&p->consumer, option.user, option.password, option.vhost);
    if (option.window) {
        p->settled = calloc(ring, sizeof *p->settled);
        p->stamps = calloc(ring, sizeof *p->stamps);
    }
    declare(p);
    prepare_templates(p);
    consume(p);
    set_blocking(&p->publisher, false);
    set_blocking(&p->consumer, false);
}

static void close_pair(struct pair *p)
{
    set_blocking(&p->publisher, true);
    set_blocking(&p->consumer, true);
    flush(&p->consumer);               /* the last acknowledgements */
    close_connection(&p->consumer);
    struct buffer *b = &p->publisher.out;
    for (uint32_t i = 0; i < option.queues; i++) {
        size_t frame = begin_method(b, 1, QUEUE_DELETE);
        put16(b, 0);
        put_short(b, queue_of(p, i));
        put8(b, 0);
        ask(&p->publisher, frame, QUEUE_DELETE_OK);
    }
    close_connection(&p->publisher);
}

static bool is_blocked(const struct pair *p) { return p->blocked_since > 0; }

static const char *stalled(void) { return blocks ? " (the broker announced connection.blocked)" : ""; }

static uint64_t outstanding(void)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < option.pairs; i++)
        sum += flying(&pairs[i]) + pairs[i].unconfirmed;
    return sum;
}

static void print_result(struct edge a, struct edge b)
{
    uint64_t published = 0;
    for (uint32_t i = 0; i < option.pairs; i++)
        published += pairs[i].published;
    print_measured(a, b);
    printf(", \"published\": %llu, \"consumed\": %llu, \"nacked\": %llu, \"returned\": %llu, \"blocked\": %llu"
           ", \"blocked_seconds\": %.3f", (unsigned long long)published, (unsigned long long)consumed_total,
           (unsigned long long)nacked, (unsigned long long)returned, (unsigned long long)blocks, (double)blocked_ns / SECOND);
    print_latencies();
}

static const struct option options[] = {COMMON_OPTIONS, {"exchange", 1, 0, 'e'}, {"queues", 1, 0, 'Q'},
    {"bindings", 1, 0, 'B'}, {0}};

static const char usage[] =
    "loadgen [--host H --port P --vhost V --user U --password P] [--queue PREFIX] [--argument NAME=INTEGER]...\n"
    "  --pairs N              publishers and consumers, each pair on its own queues (1)\n"
    "  --queues N             queues of each pair; without a fanout, its messages go to them in turn (1)\n"
    "  --exchange direct|fanout|topic|headers   publish by an exchange of this type\n"
    "  --bindings N           of each pair's exchange, a multiple of --queues; each message is for the next one\n"
    "  --sizes N|uniform:A:B  octets of a body, at least 16 (100)\n"
    "  --properties none|plain|distinct   plain: delivery-mode; distinct: also content-type, a new message-id each\n"
    "  --delivery-mode 1|2    (1)\n"
    "  --durable              declare durable queues\n"
    "  --batch N              most messages per write (256)\n"
    "  --ack N                acknowledge `multiple` every N messages; 1: each; 0: a no-ack consumer (100)\n"
    "  --prefetch N           (1000)\n"
    "  --in-flight N          most messages published and not delivered, over all pairs (20000)\n"
    "  --confirms W           confirm mode with at most W unconfirmed per publisher\n"
    "  --rate R               messages per second over all pairs, instead of as many as go\n"
    "  --warm-up S --seconds S   not measured, measured (1, 3)\n"
    "  --stall S              give up when nothing arrives for so long (30)\n"
    "  --pid N                measure this process's processor time too (repeatable)\n";

static void check_options(void)
{
    if (!option.pairs || option.pairs > MOST_PAIRS)
        die("--pairs: 1 to %d are possible", MOST_PAIRS);
    if (!option.queues || option.queues > MOST_QUEUES)
        die("--queues: 1 to %d are possible", MOST_QUEUES);
    if (option.exchange && !is_type("direct") && !is_type("fanout") && !is_type("topic") && !is_type("headers"))
        die("--exchange %s: direct, fanout, topic or headers is wanted", option.exchange);
    option.bindings = option.bindings ? option.bindings : option.queues;
    if (option.bindings % option.queues || option.bindings > 99999)
        die("--bindings %u: a multiple of --queues (%u) below 100000 is wanted", option.bindings, option.queues);
    copies = is_type("fanout") ? option.queues : 1;
    if (!option.batch || option.in_flight / option.pairs / copies < option.batch)
        die("--in-flight %llu leaves no room for a batch of %u in each pair", (unsigned long long)option.in_flight, option.batch);
    if (option.prefetch > 65535 || (option.prefetch && option.prefetch < option.ack))
        die("--prefetch %u: between --ack (%u) and 65535, or 0, is wanted", option.prefetch, option.ack);
    if (strcmp(option.properties, "none") && strcmp(option.properties, "plain") && strcmp(option.properties, "distinct"))
        die("--properties %s: none, plain or distinct is wanted", option.properties);
    size_ring(option.window);
}

int main(int argc, char **argv)
{
    for (int which; (which = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (which) {
        case 'e': option.exchange = optarg; break;
        case 'Q': option.queues = (uint32_t)strtoul(optarg, NULL, 10); break;
        case 'B': option.bindings = (uint32_t)strtoul(optarg, NULL, 10); break;
        default:
            if (!set_option(which, optarg)) {
                fputs(usage, stderr);
                return 2;
            }
        }
    if (optind < argc)
        die("%s: not an option", argv[optind]);
    check_options();
    prepare(sizeof *pairs);
    for (uint32_t i = 0; i < option.pairs; i++)
        open_pair(&pairs[i], i);
    struct pollfd *fds = calloc(2ul * option.pairs, sizeof *fds);
    now = begun = clock_ns();
    struct edge first, last;
    measure(fds, &first, &last);
    for (uint32_t i = 0; i < option.pairs; i++)
        close_pair(&pairs[i]);
    print_result(first, last);
    return 0;
}
