#include "core/script_plain.h"

#include <assert.h>

#include "core/script_wire.h"

enum { RUN_BYTES = 3 * 2 + 8, MIXED_BYTES = 2 + 8 };

void script_plain_clear(struct script_plain *p)
{
	p->n_ops = p->n_keys = p->n_mixed = 0;
}

bool script_plain_add(struct script_plain *p, uint32_t key, unsigned limit, uint64_t cost)
{
	struct script_plain_key *k = &p->key[key];

	assert(p->n_ops < SCRIPT_OPS_MAX && key <= p->n_keys);
	if (key == p->n_keys) {
		p->n_keys++;
		*k = (struct script_plain_key){.limit = (uint16_t)limit, .cost = (uint32_t)cost};
	} else if (k->limit != limit) {
		return false;
	}
	if (k->cost == 0) {
		p->n_mixed++;
	} else if (k->cost != cost) {
		k->cost = 0;
		p->n_mixed += k->n_ops + 1U;
	}
	k->n_ops++;
	p->op[p->n_ops++] =
		(struct script_plain_op){(uint16_t)key, (uint16_t)limit, (uint32_t)cost};
	return true;
}

size_t script_plain_most(const struct script_plain *p)
{
	return 2 + (size_t)p->n_keys * RUN_BYTES + (size_t)p->n_mixed * MIXED_BYTES;
}

static bool is_alike(const struct script_plain_key *a, const struct script_plain_key *b)
{
	return a->limit == b->limit && a->cost == b->cost && (a->n_ops == b->n_ops || a->cost == 0);
}

char *script_plain_write(const struct script_plain *p, char *to)
{
	char *count = to;
	uint32_t n_runs = 0;

	to += 2;
	for (uint32_t i = 0, n; i < p->n_keys; i += n, n_runs++) {
		const struct script_plain_key *k = &p->key[i];

		for (n = 1; i + n < p->n_keys && is_alike(k, k + n);)
			n++;
		to = put_u16(put_u16(to, n), k->limit);
		to = put_double(put_u16(to, k->cost > 0 ? k->n_ops : 0), k->cost);
	}
	put_u16(count, n_runs);
	for (uint32_t i = 0; i < p->n_ops && p->n_mixed > 0; i++)
		if (p->key[p->op[i].key].cost == 0)
			to = put_double(put_u16(to, p->op[i].key + 1U), p->op[i].cost);
	return to;
}
