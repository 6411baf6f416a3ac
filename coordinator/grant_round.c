#include "grant_round.h"

#include <string.h>

#include "coord_gossip.h"
#include "io/log.h"
#include "records.h"

enum { SWEEP_SLOTS = 16384 }; /* a partition and round */

void grant_round_begin(struct grant_round *r, struct txn *txn, struct coord_share *share)
{
	*r = (struct grant_round){.txn = txn, .share = share};
}

/* `r->value` is there. */
static bool add_record(struct grant_round *r, const struct share_quota *quota)
{
	const struct book_key key = {quota->policy, quota->region, quota->root, false};

	buf_clear(&r->key);
	ledger_key_write(&key, &r->key);
	if (buf_failed(&r->key) || buf_failed(&r->value)) {
		log_event(LOG_ERROR, "session_failed", "a grant can't be written",
			  LOG_TEXT_FIELD("why", "out of memory"));
		return false;
	}
	const struct txn_record record = {SHARE_GRANTS_TOPIC, r->partition, buf_slice(&r->key),
					  buf_slice(&r->value), true};

	return txn_begin(r->txn) && txn_add(r->txn, &record);
}

static bool give(const struct share_quota *quota, const struct share_grant *grant, void *data)
{
	struct grant_round *r = data;
	uint32_t len;

	buf_clear(&r->value);
	share_grant_write(quota, grant, &r->value);
	r->n++;
	if (r->share->gossip != NULL && !buf_failed(&r->value)) {
		len = (uint32_t)r->value.len;
		buf_add(&r->given, &len, sizeof len);
		buf_add_slice(&r->given, buf_slice(&r->value));
	}
	return add_record(r, quota);
}

/* A quota that nobody uses any more: its records become tombstones. */
static bool forget(const struct share_quota *quota, void *data)
{
	struct grant_round *r = data;
	struct buf value = r->value;
	bool ok;

	r->value = (struct buf){0};
	ok = add_record(r, quota);
	r->value = value;
	return ok;
}

bool grant_round_partition(struct grant_round *r, struct granter *g, int32_t partition,
			   uint64_t now_us)
{
	r->partition = partition;
	return granter_decide(g, now_us, give, r) &&
	       granter_sweep(g, now_us, SWEEP_SLOTS, forget, r);
}

void grant_round_tell(struct grant_round *r)
{
	const struct coord_conf *conf = r->share->first;
	uint64_t keep_ms = (conf->grant_us + conf->margin_us) / 1000;
	struct slice left = buf_slice(&r->given);
	uint32_t len;

	while (!buf_failed(&r->given) && left.len > sizeof len) {
		memcpy(&len, left.ptr, sizeof len);
		coord_gossip_grant(r->share, (struct slice){left.ptr + sizeof len, len}, keep_ms);
		left.ptr += sizeof len + len;
		left.len -= sizeof len + len;
	}
}

void grant_round_end(struct grant_round *r)
{
	buf_release(&r->key);
	buf_release(&r->value);
	buf_release(&r->given);
}
