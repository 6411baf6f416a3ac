#include "sum_record.h"

#include <inttypes.h>
#include <kova_sums.pb-c.h>

#define END_KEY "to"

static void name_copy(char to[NAME_BYTES_MAX + 1], struct slice name)
{
	if (name.len > 0)
		memcpy(to, name.ptr, name.len);
	to[name.len] = '\0';
}

static void key_write(const struct sum_record *r, struct buf *out)
{
	if (r->kind == SUM_END) {
		buf_add_text(out, END_KEY);
		return;
	}
	if (r->kind == SUM_PARTITION)
		buf_printf(out, "%" PRIu32 "/", r->partition);
	buf_add_slice(out, r->policy);
	buf_add_text(out, "/");
	buf_add_slice(out, r->region);
}

kova_status sum_record_write(const struct sum_record *r, struct buf *key, struct buf *value)
{
	char policy[NAME_BYTES_MAX + 1], region[NAME_BYTES_MAX + 1];
	Kova__V1__UsageCounts counts = KOVA__V1__USAGE_COUNTS__INIT;
	Kova__V1__Sum m = KOVA__V1__SUM__INIT;
	char *to;

	name_copy(policy, r->policy);
	name_copy(region, r->region);
	counts.admitted = r->counts.admitted;
	counts.refused = r->counts.refused;
	counts.waited = r->counts.waited;
	m.policy = policy;
	m.region = region;
	m.counts = r->kind != SUM_END ? &counts : NULL;
	m.published = r->kind == SUM_PUBLISHED;
	m.partition = r->partition;
	m.to = r->to_ms;
	m.quotas = r->shares.n;
	m.share = r->shares.share_ppm;
	m.floor = r->shares.floor_ppm;
	key_write(r, key);
	to = buf_reserve(value, kova__v1__sum__get_packed_size(&m));
	if (to != NULL)
		value->len += kova__v1__sum__pack(&m, (uint8_t *)to);
	return to != NULL && !buf_failed(key) ? KOVA_OK : KOVA_ENOMEM;
}

static kova_status read_message(const Kova__V1__Sum *m, struct sums *s)
{
	struct slice policy = slice_of(m->policy), region = slice_of(m->region);
	struct usage_counts counts = {0};

	if (m->counts == NULL) {
		s->to_ms = m->to;
		return m->to > 0 ? KOVA_OK : KOVA_EPROTO;
	}
	counts = (struct usage_counts){m->counts->admitted, m->counts->refused, m->counts->waited};
	if (!name_is_valid(policy) || !name_is_valid(region) || m->partition >= SUMS_PARTITIONS_MAX)
		return KOVA_EPROTO;
	if (m->published)
		return sums_put_published(s, policy, region, counts);
	kova_status status = sums_put_shares(s, m->partition, policy, region,
					     (struct share_sum){m->quotas, m->share, m->floor});

	return status == KOVA_OK ? sums_put(s, m->partition, policy, region, counts) : status;
}

kova_status sum_record_read(struct slice value, struct sums *s)
{
	Kova__V1__Sum *m = kova__v1__sum__unpack(NULL, value.len, (const uint8_t *)value.ptr);
	kova_status status = m != NULL ? read_message(m, s) : KOVA_EPROTO;

	if (m != NULL)
		kova__v1__sum__free_unpacked(m, NULL);
	return status;
}
