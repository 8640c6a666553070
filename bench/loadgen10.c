/* Load generator for AMQP 1.0: as loadgen.c, whose options it has, with links instead of channels.
 *
 * A pair is a sender's and a receiver's connection, each with one session; the sender has --links links to the pair's
 * queue (with --one-queue, to the queue of the first pair).  A link obeys its credit, the session's window and, with
 * --confirms W, at most W unsettled deliveries; without it everything is sent settled.  The receiver has --prefetch
 * credit, renewed when half of it is used, and sends one disposition for --ack deliveries; with --ack 0 it receives
 * settled.  With --no-consumer nobody receives, and what was sent stands beside what became of it.
 * Every message carries its link and number, so that each link's order is checked. */
#define _GNU_SOURCE
#include "amqp10.h"
#include "load.h"

enum { MOST_LINKS = 1024, LINK_SHIFT = 40, TRANSFER_OCTETS = 8 + 28, SECTION_OCTETS = 64 };

struct link {
    uint32_t number;                   /* over all pairs */
    uint32_t handle;
    int64_t credit;
    uint64_t sent, unsettled, expected;
};

struct pair {
    struct connection publisher, consumer;
    char queue[64];
    struct link *links;
    uint32_t next_link;
    uint64_t published, consumed, refused, random;
    uint64_t next_outgoing;            /* delivery-id and transfer-id of what is sent, without wrapping around */
    uint64_t transfers;
    int64_t window;                    /* transfer frames that the broker takes */
    uint64_t lowest, unconfirmed;
    bool *settled;
    uint64_t *stamps;
    uint32_t *senders;                 /* the links of unsettled deliveries, by delivery-id */
    uint64_t received, unacked_from;   /* deliveries that came, and the first that is not settled */
    int64_t granted;                   /* credit that the broker has not used */
    uint64_t frames;                   /* transfer frames that came */
    uint64_t sequence, stamp;
    bool in_message, behind;
};

#include "loop.h"

static struct link **by_number;
static int64_t depth = -1;             /* messages in the queues at the end, where they are deleted over AMQP 0-9-1 */
static uint64_t published_total, accepted, released, rejected, modified, flows, starved, stops;
static double take_rate;               /* messages a second that a receiver grants credit for; 0 for no bound */

static void handle_method(struct connection *c, uint32_t method, const uint8_t *args, uint32_t size)
{
    (void)c;
    (void)size;
    if (method == CHANNEL_CLOSE || method == CONNECTION_CLOSE)
        die("the broker closed the declaring connection with %u: %.*s", get16(args), args[2], (const char *)args + 3);
}

/* ---- what arrives ------------------------------------------------------------------------------------------ */

static void on_flow(struct connection *c, struct fields f)
{
    struct pair *p = c->pair;
    uint64_t seen = next_number(&f, 0), window = next_number(&f, 0), handle, count, credit;
    next_number(&f, 0);
    next_number(&f, 0);
    handle = next_number(&f, UINT64_MAX);
    count = next_number(&f, UINT64_MAX);
    credit = next_number(&f, UINT64_MAX);
    if (c->consumes)
        return;
    p->window = (int64_t)window - (int32_t)((uint32_t)p->transfers - (uint32_t)seen);
    if (handle == UINT64_MAX || credit == UINT64_MAX)
        return;
    if (handle >= option.links)
        die("a flow for the handle %llu, which no link has", (unsigned long long)handle);
    struct link *l = &p->links[handle];
    flows++;
    /* RabbitMQ 3.10 leaves the delivery-count out: it then counts from what it has received. */
    l->credit = count == UINT64_MAX ? (int64_t)credit : (int64_t)credit - (int32_t)((uint32_t)l->sent - (uint32_t)count);
}

static void settle_delivery(struct pair *p, uint64_t id, uint64_t state)
{
    if (p->settled[id & (ring - 1)])
        return;
    p->settled[id & (ring - 1)] = true;
    p->unconfirmed--;
    p->links[p->senders[id & (ring - 1)]].unsettled--;
    if (state == ACCEPTED)
        accepted++;
    else
        p->refused++, *(state == RELEASED ? &released : state == MODIFIED ? &modified : &rejected) += 1;
    if (measuring)
        record(&confirmation, now - p->stamps[id & (ring - 1)]);
}

static void on_disposition(struct connection *c, struct fields f, const uint8_t *end)
{
    struct pair *p = c->pair;
    bool receiver = next_number(&f, 0);
    uint32_t first = (uint32_t)next_number(&f, 0), last = (uint32_t)next_number(&f, first);
    bool settled = next_number(&f, 0);
    const uint8_t *state = f.left ? f.at : NULL;
    if (c->consumes || !receiver)
        return;
    uint64_t code = state && *state == 0 ? descriptor_of(state, end) : 0;
    if (!settled && !code)
        return;
    uint64_t from = p->lowest + (uint32_t)(first - (uint32_t)p->lowest), count = (uint32_t)(last - first) + 1ull;
    if (!option.window || from + count > p->next_outgoing)
        die("a disposition for the delivery %u, which is not outstanding", last);
    for (uint64_t id = from; id < from + count; id++)
        settle_delivery(p, id, code);
    while (p->lowest < p->next_outgoing && p->settled[p->lowest & (ring - 1)])
        p->lowest++;
}

static void put_disposition(struct pair *p, uint64_t last)
{
    struct buffer *b = &p->consumer.out;
    uint8_t *o = reserve(b, 32);
    static const uint8_t frame[] = {0, 0, 0, 30, 2, 0, 0, 0, 0, 0x53, DISPOSITION, 0xC0, 17, 5, 0x41, 0x70, 0, 0, 0, 0, 0x70,
                                    0, 0, 0, 0, 0x41, 0, 0x53, ACCEPTED, 0x45};
    memcpy(o, frame, sizeof frame);
    set32(o + 16, (uint32_t)p->unacked_from);
    set32(o + 21, (uint32_t)last);
    b->end += sizeof frame;
    p->unacked_from = last + 1;
}

static void put_flow(struct pair *p)
{
    struct buffer *b = &p->consumer.out;
    size_t frame = begin_frame(b, 0), list = begin_composite(b, FLOW);
    put_uint(b, (uint32_t)p->frames);
    put_uint(b, LARGEST_WINDOW);
    put_uint(b, 0);
    put_uint(b, LARGEST_WINDOW);
    put_uint(b, 0);
    put_uint(b, (uint32_t)p->received);
    put_uint(b, (uint32_t)p->granted);
    end_composite(b, list, 7);
    end_frame(b, frame);
}

/* Renews a receiver's credit when half of it is used, and with --take-rate when that is due. */
static void renew(struct pair *p)
{
    int64_t most = option.prefetch;
    if (take_rate > 0) {
        int64_t due = (int64_t)((double)(clock_ns() - begun) * take_rate / SECOND) + 1 - (int64_t)p->received;
        most = due < most ? due : most;
    }
    if (most > p->granted && (take_rate > 0 || p->granted <= (int64_t)option.prefetch / 2)) {
        p->granted = most;
        put_flow(p);
    }
}

static void delivered(struct pair *p)
{
    struct link *l = p->sequence >> LINK_SHIFT < (uint64_t)option.pairs * option.links ? by_number[p->sequence >> LINK_SHIFT] : NULL;
    uint64_t number = p->sequence & ((1ull << LINK_SHIFT) - 1);
    if (!l)
        die("a message of %s is not one of ours", p->queue);
    if (number < l->expected || (number > l->expected && !p->refused))
        die("message %llu of a link to %s arrived where %llu was expected", (unsigned long long)number, p->queue,
            (unsigned long long)l->expected);
    l->expected = number + 1;
    p->consumed++;
    consumed_total++;
    if (measuring)
        record(&delivery, now - p->stamp);
    if (--p->granted < 0)
        starved++;                     /* beyond our credit */
    if (option.ack && p->received - p->unacked_from >= option.ack)
        put_disposition(p, p->received - 1);
    if (take_rate <= 0)
        renew(p);
}

/* The octets of the body: those of the first data section, which the sections before it lead to. */
static const uint8_t *body_of(const uint8_t *p, const uint8_t *end)
{
    struct value v;
    while (p < end) {
        bool data = p + 3 <= end && p[1] == 0x53 ? p[2] == DATA : descriptor_of(p, end) == DATA;
        if (data && p[1] == 0x53 && p + 8 + SMALLEST_BODY <= end)   /* perhaps cut: the rest is in further frames */
            return p + (p[3] == 0xA0 ? 5 : 8);
        p = read_value(p, end, &v);
        if (data)
            return v.at;
    }
    die("a message without a data section is not one of ours");
}

static void on_transfer(struct connection *c, struct fields f, const uint8_t *payload, const uint8_t *end)
{
    struct pair *p = c->pair;
    struct value skipped;
    if (!c->consumes)
        die("the broker sent a transfer to a sender");
    next_number(&f, 0);
    next_number(&f, 0);
    next_field(&f, &skipped);
    next_number(&f, 0);
    bool settled = next_number(&f, 0), more = next_number(&f, 0);
    p->frames++;
    if (!p->in_message) {
        const uint8_t *body = body_of(payload, end);
        p->sequence = get64(body);
        p->stamp = get64(body + 8);
        p->received++;
        if (settled != !option.ack)
            die("a delivery came %s", settled ? "settled" : "unsettled");
    }
    p->in_message = more;
    if (!more)
        delivered(p);
}

static void handle_performative(struct connection *c, const uint8_t *p, const uint8_t *end)
{
    static const char *const names[] = {[DETACH - DETACH] = "detach", [END - DETACH] = "end", [CLOSE - DETACH] = "close"};
    const uint8_t *after;
    uint64_t code = descriptor_of(p, end);
    struct fields f = fields_of(p, end, &after);
    if (code == TRANSFER)
        on_transfer(c, f, after, end);
    else if (code == DISPOSITION)
        on_disposition(c, f, end);
    else if (code == FLOW)
        on_flow(c, f);
    else if (code == DETACH || code == END || code == CLOSE) {
        struct value skipped;
        if (code == DETACH)
            next_field(&f, &skipped), next_field(&f, &skipped);
        die_of(names[code - DETACH], f.left ? f.at : NULL, end);
    }
}

static void take_frames(struct connection *c)
{
    size_t frame;
    const uint8_t *p = c->in.data + c->in.start, *end = c->in.data + c->in.end;
    for (; (frame = whole_frame10(p, (size_t)(end - p), FRAME_MAX)); p += frame)
        if (frame > 4u * p[4])
            handle_performative(c, p + 4 * p[4], p + frame);
    c->in.start = (size_t)(p - c->in.data);
}

/* ---- what is sent ------------------------------------------------------------------------------------------ */

/* The sections of a message up to its body's octets; `none` is a data section alone. */
static size_t put_sections(uint8_t *o, uint64_t number, uint32_t size)
{
    static const char hex[] = "0123456789abcdef";
    uint8_t *begin = o;
    bool distinct = !strcmp(option.properties, "distinct");
    if (strcmp(option.properties, "none") || option.delivery_mode == 2) {
        memcpy(o, (uint8_t[]){0, 0x53, 0x70, 0xC0, 2, 1, option.delivery_mode == 2 ? 0x41 : 0x42}, 7);
        o += 7;
    }
    if (distinct) {
        memcpy(o, (uint8_t[]){0, 0x53, 0x73, 0xC0, 19 + 6 + 2, 7, 0xA1, 16}, 8);
        for (int i = 0; i < 16; i++)
            o[8 + i] = (uint8_t)hex[number >> (60 - 4 * i) & 15];
        memcpy(o + 24, (uint8_t[]){0x40, 0x40, 0x40, 0x40, 0x40, 0xA3, 1, 'b'}, 8);
        o += 32;
    }
    memcpy(o, (uint8_t[]){0, 0x53, DATA, 0xB0}, 4);
    set32(o + 4, size);
    return (size_t)(o + 8 - begin);
}

static uint8_t *put_transfer(uint8_t *o, struct pair *p, struct link *l, bool first, bool more, size_t payload)
{
    uint8_t *begin = o;
    memcpy(o + 4, (uint8_t[]){2, 0, 0, 0, 0, 0x53, TRANSFER, 0xC0, 0, 6, 0x70}, 11);
    set32(o + 15, l->handle);
    o += 19;
    if (first) {
        *o++ = 0x70;
        set32(o, (uint32_t)p->next_outgoing);
        memcpy(o + 4, (uint8_t[]){0xA0, 4}, 2);
        set32(o + 6, (uint32_t)p->next_outgoing);
        o += 10;
        memcpy(o, (uint8_t[]){0x43, option.window ? 0x42 : 0x41}, 2);
        o += 2;
        begin[13] = more ? 6 : 5;
    } else {
        memcpy(o, (uint8_t[]){0x40, 0x40, 0x40, 0x40}, 4);
        o += 4;
    }
    if (more || !first)
        *o++ = more ? 0x41 : 0x42;
    begin[12] = (uint8_t)(o - begin - 13);
    set32(begin, (uint32_t)((size_t)(o - begin) + payload));
    return o;
}

static uint8_t *put_message(struct pair *p, struct link *l, uint8_t *o, uint64_t stamp)
{
    uint8_t message[SECTION_OCTETS];
    uint32_t size = next_size(p);
    size_t head = put_sections(message, p->published, size), most = p->publisher.frame_max - TRANSFER_OCTETS - 8;
    size_t total = head + size, sent = 0;
    set64(content, (uint64_t)l->number << LINK_SHIFT | l->sent);
    set64(content + 8, stamp);
    do {
        size_t part = total - sent < most ? total - sent : most;
        o = put_transfer(o, p, l, sent == 0, sent + part < total, part);
        if (sent == 0)
            memcpy(o, message, head), memcpy(o + head, content, part - head);
        else
            memcpy(o, content + sent - head, part);
        o += part;
        sent += part;
        p->transfers++;
        p->window--;
    } while (sent < total);
    if (option.window) {
        uint64_t at = p->next_outgoing & (ring - 1);
        p->settled[at] = false;
        p->stamps[at] = stamp;
        p->senders[at] = l->handle;
        p->unconfirmed++;
        l->unsettled++;
    }
    l->sent++;
    if (--l->credit == 0)
        stops++;
    p->next_outgoing++;
    p->published++;
    published_total++;
    return o;
}

static bool may_send(const struct link *l)
{
    return l->credit > 0 && (!option.window || l->unsettled < option.window);
}

/* How many messages the links of a pair may send now, together; see `permitted` of loadgen.c. */
static uint64_t permitted(struct pair *p)
{
    uint64_t share = option.in_flight / option.pairs, room = 0;
    uint64_t flying = option.one_queue ? (published_total - released - rejected - modified - consumed_total) / option.pairs
                                       : p->published - p->refused - p->consumed;
    uint64_t frames = option.high / (p->publisher.frame_max - TRANSFER_OCTETS - 8) + 1;
    if (stopping || option.idle)
        return 0;
    for (uint32_t i = 0; i < option.links && room < option.batch; i++) {
        struct link *l = &p->links[i];
        uint64_t mine = l->credit > 0 ? (uint64_t)l->credit : 0, window = option.window - l->unsettled;
        room += option.window && window < mine ? window : mine;
    }
    if (option.consumes) {
        uint64_t left = flying < share ? share - flying : 0;
        room = room < left ? room : left;
    }
    uint64_t most = p->window > 0 ? (uint64_t)p->window / frames : 0, span = ring - (p->next_outgoing - p->lowest);
    room = room < most ? room : most;
    if (option.window)
        room = room < span ? room : span;
    if (option.rate > 0)
        room = paced(p, room);
    return room < option.batch ? room : option.batch;
}

static void publish(struct pair *p)
{
    struct connection *c = &p->publisher;
    if (take_rate > 0 && p->consumer.fd > 0) {
        renew(p);
        flush(&p->consumer);
    }
    size_t most = option.high + SECTION_OCTETS + (option.high / (c->frame_max - TRANSFER_OCTETS - 8) + 1) * (TRANSFER_OCTETS + 8);
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
        for (uint64_t stamp = clock_ns(); count--;) {
            while (!may_send(&p->links[p->next_link]))
                p->next_link = (p->next_link + 1) % option.links;
            o = put_message(p, &p->links[p->next_link], o,
                            p->behind && option.rate > 0 ? due_at(p->published) : stamp);
            p->next_link = (p->next_link + 1) % option.links;
        }
        c->out.end = (size_t)(o - c->out.data);
        flush(c);
    }
}

/* ---- set-up and the loop ----------------------------------------------------------------------------------- */

/* Queues are declared, and deleted at the end, over AMQP 0-9-1, which has words for their arguments. */
static void declare(const char *queue, bool away)
{
    struct connection c = {0};
    struct buffer *b = &c.out;
    const uint8_t *args;
    uint32_t size;
    if (!option.declared)
        return;
    connect_to(&c, option.host, option.port);
    open_connection(&c, option.user, option.password, option.vhost);
    size_t frame = begin_method(b, 1, away ? QUEUE_DELETE : QUEUE_DECLARE);
    put16(b, 0);
    put_short(b, queue);
    put8(b, away ? 0 : option.durable ? 2 : 0);
    if (!away)
        put_queue_arguments(b);
    end_method(b, frame);
    await(&c, away ? QUEUE_DELETE_OK : QUEUE_DECLARE_OK, &args, &size);
    if (away)
        depth = (depth < 0 ? 0 : depth) + get32(args);
    close_connection(&c);
    free(c.in.data);
    free(c.out.data);
}

static void open_pair(struct pair *p, uint32_t number)
{
    char address[160], name[32];
    uint32_t window;
    p->publisher.pair = p->consumer.pair = p;
    p->consumer.consumes = true;
    p->random = 0x9E3779B97F4A7C15ull * (number + 1);
    if (option.name)
        snprintf(p->queue, sizeof p->queue, "%s", option.name);
    else
        snprintf(p->queue, sizeof p->queue, "%s.%d.%u", option.queue, (int)getpid(), option.one_queue ? 0 : number);
    snprintf(address, sizeof address, "%s%s", option.prefix, p->queue);
    if (!number || !option.one_queue)
        declare(p->queue, false);
    p->links = calloc(option.links, sizeof *p->links);
    if (option.window) {
        p->settled = calloc(ring, sizeof *p->settled);
        p->stamps = calloc(ring, sizeof *p->stamps);
        p->senders = calloc(ring, sizeof *p->senders);
    }
    connect_to(&p->publisher, option.host, option.port);
    open_connection10(&p->publisher, option.sasl, option.user, option.password, "localhost", &window);
    p->window = window;
    for (uint32_t i = 0; i < option.links; i++) {
        p->links[i].number = number * option.links + i;
        p->links[i].handle = i;
        by_number[p->links[i].number] = &p->links[i];
        snprintf(name, sizeof name, "sender-%d-%u", (int)getpid(), p->links[i].number);
        attach(&p->publisher, i, name, address, false, !option.window);
    }
    set_blocking(&p->publisher, false);
    if (!option.consumes || (number && option.one_queue))
        return;
    connect_to(&p->consumer, option.host, option.port);
    open_connection10(&p->consumer, option.sasl, option.user, option.password, "localhost", &window);
    snprintf(name, sizeof name, "receiver-%d-%u", (int)getpid(), number);
    attach(&p->consumer, 0, name, address, true, !option.ack);
    renew(p);
    flush(&p->consumer);
    set_blocking(&p->consumer, false);
}

static bool consumes(const struct pair *p) { return p->consumer.fd > 0; }

static void close_pair(struct pair *p)
{
    if (consumes(p)) {
        set_blocking(&p->consumer, true);
        if (option.ack && p->unacked_from < p->received)
            put_disposition(p, p->received - 1);
        flush(&p->consumer);
        close_connection10(&p->consumer);
    }
    set_blocking(&p->publisher, true);
    close_connection10(&p->publisher);
}

static bool is_blocked(const struct pair *p)
{
    (void)p;
    return false;
}

static const char *stalled(void) { return ""; }

static uint64_t outstanding(void)
{
    uint64_t sum = option.consumes ? published_total - released - rejected - modified - consumed_total : 0;
    for (uint32_t i = 0; i < option.pairs; i++)
        sum += pairs[i].unconfirmed;
    return sum;
}

static void print_result(struct edge a, struct edge b)
{
    uint64_t credit = 0;
    for (uint32_t i = 0; i < option.pairs * option.links; i++)
        credit += by_number[i]->credit > 0 ? (uint64_t)by_number[i]->credit : 0;
    print_measured(a, b);
    printf(", \"published\": %llu, \"consumed\": %llu, \"accepted\": %llu, \"released\": %llu, \"rejected\": %llu",
           (unsigned long long)published_total, (unsigned long long)consumed_total, (unsigned long long)accepted,
           (unsigned long long)released, (unsigned long long)rejected);
    printf(", \"modified\": %llu, \"flows\": %llu, \"credit_left\": %llu, \"beyond_credit\": %llu, \"stops\": %llu, \"depth\": %lld",
           (unsigned long long)modified, (unsigned long long)flows, (unsigned long long)credit, (unsigned long long)starved,
           (unsigned long long)stops, (long long)depth);
    print_latencies();
}

static const struct option options[] = {COMMON_OPTIONS, {"links", 1, 0, 'l'}, {"one-queue", 0, 0, 'o'},
    {"no-consumer", 0, 0, 'N'}, {"name", 1, 0, 'E'}, {"idle", 0, 0, 'Z'}, {"no-declare", 0, 0, 'U'}, {"prefix", 1, 0, 'F'}, {"sasl", 1, 0, 'm'}, {"take-rate", 1, 0, 'R'}, {0}};

static const char usage[] =
    "loadgen10: as loadgen, and\n"
    "  --links N              sender links of each pair, all to its queue (1)\n"
    "  --one-queue            all pairs send to the queue of the first, which alone receives\n"
    "  --no-consumer          nobody receives; measure what is taken in\n"
    "  --name QUEUE           use this queue, which is there, and leave it\n"
    "  --idle                 attach links, take their credit and send nothing\n"
    "  --no-declare           the broker makes the queues when links are attached\n"
    "  --prefix TEXT          put before a queue's name as its address\n"
    "  --sasl PLAIN|ANONYMOUS (PLAIN)\n"
    "  --confirms W           send unsettled, at most W unsettled for each link; else settled\n"
    "  --prefetch N           link credit of a receiver (1000)\n"
    "  --take-rate N          a receiver grants credit for so many messages a second\n"
    "  --properties none|plain|distinct   none: a data section alone; plain: and a header; distinct: and properties\n";

static void set_options(int argc, char **argv)
{
    for (int which; (which = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (which) {
        case 'l': option.links = (uint32_t)strtoul(optarg, NULL, 10); break;
        case 'o': option.one_queue = true; break;
        case 'N': option.consumes = false; break;
        case 'U': option.declared = false; break;
        case 'E': option.name = optarg; option.declared = false; option.one_queue = true; break;
        case 'Z': option.idle = true; option.consumes = false; break;
        case 'F': option.prefix = optarg; break;
        case 'm': option.sasl = optarg; break;
        case 'R': take_rate = strtod(optarg, NULL); break;
        default:
            if (!set_option(which, optarg)) {
                fputs(usage, stderr);
                exit(2);
            }
        }
    if (optind < argc)
        die("%s: not an option", argv[optind]);
    if (!option.pairs || option.pairs > MOST_PAIRS || !option.links || option.links > MOST_LINKS)
        die("--pairs 1 to %d and --links 1 to %d are possible", MOST_PAIRS, MOST_LINKS);
    if (!option.batch || option.prefetch < 2 || option.prefetch < option.ack)
        die("--batch of at least 1, and --prefetch of at least 2 and of --ack are wanted");
    size_ring((uint64_t)option.window * option.links);
}

int main(int argc, char **argv)
{
    option.properties = "none";
    set_options(argc, argv);
    prepare(sizeof *pairs);
    by_number = calloc((size_t)option.pairs * option.links, sizeof(struct link *));
    for (uint32_t i = 0; i < option.pairs; i++)
        open_pair(&pairs[i], i);
    struct pollfd *fds = calloc(2ul * option.pairs, sizeof *fds);
    now = begun = clock_ns();
    for (uint32_t i = 0; i < option.pairs; i++)
        take_frames(&pairs[i].publisher);   /* what came together with the last attach */
    struct edge first, last;
    measure(fds, &first, &last);
    for (uint32_t i = 0; i < option.pairs; i++)
        close_pair(&pairs[i]);
    for (uint32_t i = 0; i < (option.one_queue ? 1 : option.pairs); i++)
        declare(pairs[i].queue, true);
    print_result(first, last);
    return 0;
}
