/* Which policies limit a bucket, and by which keys: those whose `envoy` has its domain and the keys of its id, in any order. */
#include "control/catalogue.h"
#include "control/control.h"
#include "core/limit.h"
#include "core/rls_key.h"
#include "rlqs_own.h"

/* The texts that the bucket's name is made of: its domain, and its entries, as struct rlqs_id has them. */
static void read_name(const struct rlqs_bucket *b, struct slice *ret_domain, struct rlqs_id *ret_id)
{
	struct slice rest = {b->name, b->name_len};
	struct rlqs_entry entry;

	ret_id->n_entries = 0;
	rls_name_next(&rest, ret_domain);
	while (rls_name_next(&rest, &entry.key) && rls_name_next(&rest, &entry.value))
		ret_id->entry[ret_id->n_entries++] = entry;
}

/* Adds the key path of the policy: the values in the order in which it names their keys. */
static void add_key(struct buf *text, const struct policy *p, const struct rlqs_id *id)
{
	struct slice rest = p->envoy, name, value;
	size_t start = text->len;

	rls_name_next(&rest, &name); /* the domain */
	while (rls_name_next(&rest, &name))
		if (rlqs_id_find(id, name, &value))
			rls_path_add(text, start, value);
}

/* Their places in `text` first, since that may move. */
struct places {
	size_t at[REQUEST_PAIRS_MAX], len[REQUEST_PAIRS_MAX];
	const struct policy *policy[REQUEST_PAIRS_MAX];
};

/* Those that only count, or not those. */
static void add_pairs(struct rlqs_bucket *b, struct slice name, const struct rlqs_id *id,
		      bool shadow, struct places *to)
{
	const struct policy *p;
	uint64_t walk = 0;

	while ((p = catalogue_envoy_set(b->rlqs->catalogue, name, &walk)) != NULL) {
		if (p->shadow != shadow)
			continue;
		if (b->n_counted == REQUEST_PAIRS_MAX) {
			b->is_unusable = true;
			return;
		}
		to->policy[b->n_counted] = p;
		to->at[b->n_counted] = b->text.len;
		add_key(&b->text, p, id);
		to->len[b->n_counted] = b->text.len - to->at[b->n_counted];
		if (to->len[b->n_counted++] > REQUEST_KEY_MAX)
			b->is_unusable = true;
	}
}

void rlqs_bind(struct rlqs_bucket *b)
{
	struct buf name = {0};
	struct slice domain;
	struct places places;
	struct rlqs_id id;

	read_name(b, &domain, &id);
	rls_name_add(&name, domain);
	for (unsigned i = 0; i < id.n_entries; i++)
		rls_name_add(&name, id.entry[i].key);
	buf_clear(&b->text);
	b->is_unusable = b->is_unleasable = false;
	b->n_counted = 0;
	add_pairs(b, buf_slice(&name), &id, false, &places);
	b->n_pairs = b->n_counted;
	add_pairs(b, buf_slice(&name), &id, true, &places);
	for (uint8_t i = 0; i < b->n_counted; i++)
		b->pairs[i] =
			(struct request_pair){.policy = slice_of(places.policy[i]->name),
					      .key = {b->text.ptr + places.at[i], places.len[i]}};
	if (buf_failed(&name) || buf_failed(&b->text))
		b->is_unusable = true;
	buf_release(&name);
}
