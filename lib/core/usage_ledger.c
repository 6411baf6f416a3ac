#include "core/usage_ledger.h"

#include <assert.h>
#include <stdlib.h>

#include "core/varint.h"

/* Numbers of what is over, and of a counter. */
enum { FINAL_FIELDS = 3, COUNTER_FIELDS = 6 };

/* ---- Processes ---- */

/* What a process is called: its epoch, then its agent. */
struct process_name {
	char bytes[sizeof(uint64_t) + USAGE_AGENT_MAX];
	size_t len;
};

static struct process_name name_of(const struct usage_record *r)
{
	struct process_name name = {.len = sizeof r->epoch + r->agent.len};

	assert(r->agent.len >= 1 && r->agent.len <= USAGE_AGENT_MAX);
	memcpy(name.bytes, &r->epoch, sizeof r->epoch);
	memcpy(name.bytes + sizeof r->epoch, r->agent.ptr, r->agent.len);
	return name;
}

static uint64_t epoch_of(const struct intern *processes, uint32_t process)
{
	uint64_t epoch;

	memcpy(&epoch, intern_string(processes, process).ptr, sizeof epoch);
	return epoch;
}

static struct slice agent_of(const struct intern *processes, uint32_t process)
{
	return slice_after(intern_string(processes, process), sizeof(uint64_t));
}

/* ---- Memory ---- */

void usage_ledger_release(struct usage_ledger *l)
{
	free(l->counters);
	*l = (struct usage_ledger){0};
}

void usage_ledger_clear(struct usage_ledger *l, struct intern *processes)
{
	for (size_t i = 0; i < l->n; i++)
		intern_drop(processes, l->counters[i].process);
	l->n = 0;
	l->final = (struct usage_counts){0};
}

static bool has_room(struct usage_ledger *l)
{
	uint32_t room = l->room > 0 ? 2 * l->room : 4;
	struct usage_counter *counters;

	if (l->n < l->room)
		return true;
	counters = realloc(l->counters, room * sizeof *counters);
	if (counters == NULL)
		return false;
	l->counters = counters;
	l->room = room;
	return true;
}

/* ---- Bytes ---- */

static unsigned char *pack_counts(unsigned char *at, const struct usage_counts *c)
{
	at += varint_write(at, c->admitted);
	at += varint_write(at, c->refused);
	return at + varint_write(at, c->waited);
}

/* The stamps are close to each other. */
kova_status usage_ledger_pack(const struct usage_ledger *l, struct buf *out)
{
	size_t most = (FINAL_FIELDS + COUNTER_FIELDS * (size_t)l->n) * VARINT_BYTES_MAX;
	unsigned char *begin = (unsigned char *)buf_reserve(out, most), *at = begin;

	if (begin == NULL)
		return KOVA_ENOMEM;
	at = pack_counts(at, &l->final);
	for (const struct usage_counter *c = l->counters; c < l->counters + l->n; c++) {
		at += varint_write(at, c->process);
		at += varint_write(at, c->window);
		at += varint_write(at, c->hlc - c->window);
		at = pack_counts(at, &c->counts);
	}
	out->len += (size_t)(at - begin);
	return KOVA_OK;
}

static struct usage_counts unpack_counts(const unsigned char **at)
{
	struct usage_counts c;

	c.admitted = varint_read(at);
	c.refused = varint_read(at);
	c.waited = varint_read(at);
	return c;
}

kova_status usage_ledger_unpack(struct usage_ledger *l, struct slice bytes)
{
	const unsigned char *at = (const unsigned char *)bytes.ptr, *end = at + bytes.len;
	struct usage_ledger is = {.counters = l->counters, .room = l->room};

	is.final = unpack_counts(&at);
	while (at < end) {
		struct usage_counter *c;

		if (!has_room(&is)) {
			l->counters = is.counters;
			l->room = is.room;
			return KOVA_ENOMEM;
		}
		c = &is.counters[is.n++];
		c->process = (uint32_t)varint_read(&at);
		c->window = varint_read(&at);
		c->hlc = c->window + varint_read(&at);
		c->counts = unpack_counts(&at);
	}
	*l = is;
	return KOVA_OK;
}

/* ---- Records ---- */

static uint64_t greater(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static struct usage_counts sum(struct usage_counts a, struct usage_counts b)
{
	return (struct usage_counts){a.admitted + b.admitted, a.refused + b.refused,
				     a.waited + b.waited};
}

/* The counter of a process, which is made if it is not there. */
static struct usage_counter *counter_of(struct usage_ledger *l, struct intern *processes,
					const struct usage_record *r)
{
	const struct process_name name = name_of(r);
	const struct slice process = {name.bytes, name.len};
	uint32_t number = intern_find(processes, process);

	for (size_t i = 0; number != UINT32_MAX && i < l->n; i++)
		if (l->counters[i].process == number)
			return &l->counters[i];
	if (!has_room(l) || intern_use(processes, process, &number) != KOVA_OK)
		return NULL;
	l->counters[l->n] = (struct usage_counter){.process = number};
	return &l->counters[l->n++];
}

kova_status usage_ledger_read(struct usage_ledger *l, struct intern *processes,
			      const struct usage_record *r)
{
	struct usage_counter *c = counter_of(l, processes, r);

	if (c == NULL)
		return KOVA_ENOMEM;
	c->hlc = greater(c->hlc, r->hlc);
	if (r->window > c->window) {
		l->final = sum(l->final, c->counts);
		c->window = r->window;
		c->counts = r->counts;
	} else if (r->window == c->window) {
		c->counts.admitted = greater(c->counts.admitted, r->counts.admitted);
		c->counts.refused = greater(c->counts.refused, r->counts.refused);
		c->counts.waited = greater(c->counts.waited, r->counts.waited);
	}
	return KOVA_OK;
}

struct usage_counts usage_ledger_total(const struct usage_ledger *l)
{
	struct usage_counts total = l->final;

	for (size_t i = 0; i < l->n; i++)
		total = sum(total, l->counters[i].counts);
	return total;
}

struct usage_record usage_ledger_agent(const struct usage_ledger *l, const struct intern *processes,
				       size_t i)
{
	const struct usage_counter *c = &l->counters[i];

	assert(i < l->n);
	return (struct usage_record){agent_of(processes, c->process),
				     epoch_of(processes, c->process), c->window, c->hlc, c->counts};
}

static bool is_over(const struct usage_ledger *l, const struct intern *processes, uint32_t process)
{
	uint64_t epoch = epoch_of(processes, process);
	struct slice agent = agent_of(processes, process);

	for (size_t i = 0; i < l->n; i++) {
		uint32_t other = l->counters[i].process;

		if (epoch_of(processes, other) > epoch &&
		    slice_equal(agent_of(processes, other), agent))
			return true;
	}
	return false;
}

bool usage_ledger_forget(struct usage_ledger *l, struct intern *processes, uint64_t before_hlc)
{
	uint32_t n = l->n;

	for (size_t i = l->n; i-- > 0;) {
		const struct usage_counter c = l->counters[i];

		if (c.hlc >= before_hlc || !is_over(l, processes, c.process))
			continue;
		l->final = sum(l->final, c.counts);
		l->counters[i] = l->counters[--l->n];
		intern_drop(processes, c.process);
	}
	return l->n < n;
}
