#include "core/pool_permits.h"

#include "core/keyspace.h"
#include "core/script_plain.h"
#include "core/script_wire.h"

enum { TAIL_BYTES = 2 + 8 + 4 };

struct slice pool_permits_holder(const struct pool_endpoint *e)
{
	struct slice id = e->id;

	return e->account.len > 0 ? e->account : slice_cut(&id, '@');
}

/* Where the account stands in the name of a key that is its own; 0: it does not. */
static size_t holder_at(struct slice key, struct slice policy)
{
	size_t at = slice_index(key, '{') + 1, rest = at + sizeof POOL_PERMITS_HOLDER;

	if (key.len <= rest + policy.len || key.ptr[rest + policy.len] != ':')
		return 0;
	if (memcmp(key.ptr + at, POOL_PERMITS_HOLDER "}", sizeof POOL_PERMITS_HOLDER) != 0 ||
	    memcmp(key.ptr + rest, policy.ptr, policy.len) != 0)
		return 0;
	return at;
}

static void add_text(struct buf *to, struct slice text)
{
	char *at = buf_reserve(to, 2);

	if (at != NULL)
		to->len += (size_t)(put_u16(at, (unsigned)text.len) - at);
	buf_add_slice(to, text);
}

static void add_key(struct buf *to, struct slice key, size_t gap_at)
{
	buf_add(to, gap_at > 0 ? "\1" : "", 1);
	if (gap_at == 0) {
		add_text(to, key);
		return;
	}
	add_text(to, (struct slice){key.ptr, gap_at});
	add_text(to, slice_after(key, gap_at + sizeof POOL_PERMITS_HOLDER - 1));
}

/* The short reply is a debt: up to which it says that the take was admitted. */
static double most_debt(struct script_batch *batch, const struct script_op *take)
{
	const struct script_check *c = &take->checks[0];

	if (script_batch_plain(batch) == NULL)
		return -1;
	return (double)c->limit->cap_ut - (double)c->cost * (double)LIMIT_UT;
}

kova_status pool_permits_write(struct pool_permits *p, struct script_batch *batch,
			       const struct script_op *take, unsigned own, struct slice policy,
			       uint64_t now_us, const struct script_call *call)
{
	struct script_keys keys;
	struct slice key, program;
	kova_status status;
	char *at;

	buf_clear(&p->text);
	script_batch_clear(batch);
	status = script_batch_add(batch, take, now_us);
	if (status != KOVA_OK)
		return status;
	keys = script_batch_keys(batch);
	p->n_keys = keys.n;
	if (keys.n > UINT16_MAX)
		return KOVA_ETOOBIG;
	while (script_keys_next(&keys, &key))
		add_key(&p->text, key, own > 0 ? holder_at(key, policy) : 0);
	program = script_batch_program(batch, call);
	at = buf_reserve(&p->text, TAIL_BYTES);
	if (program.ptr == NULL || at == NULL)
		return KOVA_ENOMEM;
	p->text.len += (size_t)(put_u32(put_double(put_u16(at, own), most_debt(batch, take)),
					(uint32_t)program.len) -
				at);
	buf_add_slice(&p->text, program);
	return buf_failed(&p->text) ? KOVA_ENOMEM : KOVA_OK;
}

void pool_permits_release(struct pool_permits *p)
{
	buf_release(&p->text);
}
