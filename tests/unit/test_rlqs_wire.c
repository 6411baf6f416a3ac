/* Reports and actions of the rate limit quota service, against the messages of proto/. */
#include <criterion/criterion.h>
#include <envoy/service/rate_limit_quota/v3/rlqs.pb-c.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/rlqs_action.h"
#include "core/rlqs_report.h"

typedef Envoy__Service__RateLimitQuota__V3__RateLimitQuotaUsageReports rlqs_reports;
typedef Envoy__Service__RateLimitQuota__V3__RateLimitQuotaUsageReports__BucketQuotaUsage rlqs_use;
typedef Envoy__Service__RateLimitQuota__V3__RateLimitQuotaResponse rlqs_response;
typedef Envoy__Service__RateLimitQuota__V3__RateLimitQuotaResponse__BucketAction rlqs_told;
typedef Envoy__Service__RateLimitQuota__V3__BucketId rlqs_bucket_id;
typedef Envoy__Service__RateLimitQuota__V3__BucketId__BucketEntry rlqs_pair;
typedef Envoy__Type__V3__RateLimitStrategy rlqs_strategy;

#define ACTION(name) \
	ENVOY__SERVICE__RATE_LIMIT_QUOTA__V3__RATE_LIMIT_QUOTA_RESPONSE__BUCKET_ACTION__BUCKET_ACTION_##name
#define STRATEGY(name) ENVOY__TYPE__V3__RATE_LIMIT_STRATEGY__STRATEGY_##name
#define RULE(name) ENVOY__TYPE__V3__RATE_LIMIT_STRATEGY__BLANKET_RULE__##name

enum { PAIRS_MAX = 20 };

/* A bucket id's bytes, of keys and values in turn. */
static struct slice id_of(struct buf *to, unsigned n, const char *const text[])
{
	rlqs_bucket_id id = ENVOY__SERVICE__RATE_LIMIT_QUOTA__V3__BUCKET_ID__INIT;
	rlqs_pair pair[PAIRS_MAX], *pairs[PAIRS_MAX];

	for (unsigned i = 0; i < n; i++) {
		envoy__service__rate_limit_quota__v3__bucket_id__bucket_entry__init(&pair[i]);
		pair[i].key = (char *)(uintptr_t)text[2 * i];
		pair[i].value = (char *)(uintptr_t)text[2 * i + 1];
		pairs[i] = &pair[i];
	}
	id.n_bucket = n;
	id.bucket = pairs;
	to->len = protobuf_c_message_pack(
		&id.base, (uint8_t *)buf_reserve(to, protobuf_c_message_get_packed_size(&id.base)));
	return buf_slice(to);
}

/* Of `id_bytes`, twice: with 3 allowed and 4 denied, and with nothing. */
static void write_report(struct buf *to, const char *domain, struct slice id_bytes)
{
	rlqs_reports m = ENVOY__SERVICE__RATE_LIMIT_QUOTA__V3__RATE_LIMIT_QUOTA_USAGE_REPORTS__INIT;
	rlqs_use use[2], *uses[2] = {&use[0], &use[1]};
	Google__Protobuf__Duration elapsed = GOOGLE__PROTOBUF__DURATION__INIT;

	elapsed.seconds = 5;
	for (unsigned i = 0; i < 2; i++) {
		envoy__service__rate_limit_quota__v3__rate_limit_quota_usage_reports__bucket_quota_usage__init(
			&use[i]);
		use[i].bucket_id = envoy__service__rate_limit_quota__v3__bucket_id__unpack(
			NULL, id_bytes.len, (const uint8_t *)id_bytes.ptr);
		use[i].time_elapsed = &elapsed;
	}
	use[0].num_requests_allowed = 3;
	use[0].num_requests_denied = 4;
	m.domain = (char *)(uintptr_t)domain;
	m.n_bucket_quota_usages = 2;
	m.bucket_quota_usages = uses;
	to->len = protobuf_c_message_pack(
		&m.base, (uint8_t *)buf_reserve(to, protobuf_c_message_get_packed_size(&m.base)));
	for (unsigned i = 0; i < 2; i++)
		envoy__service__rate_limit_quota__v3__bucket_id__free_unpacked(use[i].bucket_id,
									       NULL);
}

Test(rlqs_report, is_read)
{
	struct buf id = {0}, message = {0}, name = {0}, other = {0};
	struct rlqs_report report;
	struct rlqs_usage usage;
	struct slice rest, value;

	write_report(&message, "edge", id_of(&id, 2, (const char *[]){"user", "u", "tenant", "t"}));
	cr_assert_eq(rlqs_report_parse(buf_slice(&message), &report), KOVA_OK);
	cr_assert(slice_equal(report.domain, SLICE("edge")) && report.n_usages == 2);
	rest = report.bytes;
	cr_assert(rlqs_usage_next(&rest, &usage));
	cr_assert(usage.allowed == 3 && usage.denied == 4 && usage.id.n_entries == 2);
	cr_assert(slice_equal(usage.id.entry[0].key, SLICE("tenant")), "in order");
	cr_assert(slice_equal(usage.id.bytes, buf_slice(&id)), "as it came");
	cr_assert(rlqs_id_find(&usage.id, SLICE("user"), &value) && slice_equal(value, SLICE("u")));
	cr_assert_not(rlqs_id_find(&usage.id, SLICE("use"), &value));
	rlqs_id_write(&name, report.domain, &usage.id);
	cr_assert(rlqs_usage_next(&rest, &usage) && usage.allowed == 0 && usage.denied == 0);
	cr_assert_not(rlqs_usage_next(&rest, &usage));
	buf_clear(&id);
	write_report(&message, "edge", id_of(&id, 2, (const char *[]){"tenant", "t", "user", "u"}));
	cr_assert_eq(rlqs_report_parse(buf_slice(&message), &report), KOVA_OK);
	rest = report.bytes;
	cr_assert(rlqs_usage_next(&rest, &usage));
	rlqs_id_write(&other, report.domain, &usage.id);
	cr_assert(slice_equal(buf_slice(&name), buf_slice(&other)), "a map has no order");
	buf_release(&id);
	buf_release(&message);
	buf_release(&name);
	buf_release(&other);
}

/* As a report of it says. */
static void read_id(struct buf *message, unsigned n, const char *const text[],
		    struct rlqs_id *ret_id)
{
	struct buf bytes = {0};
	struct rlqs_report report;
	struct rlqs_usage usage;
	struct slice rest;

	buf_clear(message);
	write_report(message, "edge", id_of(&bytes, n, text));
	cr_assert_eq(rlqs_report_parse(buf_slice(message), &report), KOVA_OK);
	rest = report.bytes;
	cr_assert(rlqs_usage_next(&rest, &usage));
	*ret_id = usage.id;
	buf_release(&bytes);
}

Test(rlqs_report, an_id_has_so_many_entries_and_of_two_the_last)
{
	const char *text[2 * PAIRS_MAX];
	char key[PAIRS_MAX][3];
	struct buf message = {0};
	struct rlqs_id id;
	struct slice value;

	for (unsigned i = 0; i < PAIRS_MAX; i++) {
		snprintf(key[i], sizeof key[i], "%c", 'a' + (int)(i * 7 % PAIRS_MAX));
		text[2 * i] = key[i];
		text[2 * i + 1] = i == 0 ? "first" : "other";
	}
	read_id(&message, RLQS_ENTRIES_MAX, text, &id);
	cr_assert_eq(id.n_entries, RLQS_ENTRIES_MAX);
	for (unsigned i = 1; i < id.n_entries; i++)
		cr_assert_lt(slice_compare(id.entry[i - 1].key, id.entry[i].key), 0);
	read_id(&message, RLQS_ENTRIES_MAX + 1, text, &id);
	cr_assert_eq(id.n_entries, 0);
	text[2] = text[0];
	read_id(&message, 2, text, &id);
	cr_assert(id.n_entries == 1 && rlqs_id_find(&id, slice_of(text[0]), &value) &&
		  slice_equal(value, SLICE("other")));
	buf_release(&message);
}

/* No prefix is read beyond its end, and none but those that end with a field is taken for a report. */
Test(rlqs_report, what_is_cut_off_is_none)
{
	struct buf id = {0}, message = {0};
	struct rlqs_report report;
	unsigned whole = 0;

	write_report(&message, "edge", id_of(&id, 1, (const char *[]){"user", "u"}));
	for (size_t len = 0; len < message.len; len++) {
		char *copy = malloc(len + 1);

		memcpy(copy, message.ptr, len);
		whole += rlqs_report_parse((struct slice){copy, len}, &report) == KOVA_OK;
		free(copy);
	}
	cr_assert_eq(whole, 3, "nothing, the domain, a usage");
	buf_release(&id);
	buf_release(&message);
}

/* ---- Actions ---- */

static rlqs_response *response_of(struct buf *bytes, const struct rlqs_action *action)
{
	struct buf id = {0};
	rlqs_response *response;

	buf_clear(bytes);
	rlqs_action_write(bytes, id_of(&id, 1, (const char *[]){"user", "u"}), action);
	buf_release(&id);
	cr_assert_not(buf_failed(bytes));
	response = envoy__service__rate_limit_quota__v3__rate_limit_quota_response__unpack(
		NULL, bytes->len, (const uint8_t *)bytes->ptr);
	cr_assert_not_null(response);
	for (size_t i = 0; i < response->n_bucket_action; i++) {
		const rlqs_told *told = response->bucket_action[i];

		cr_assert_eq(told->bucket_id->n_bucket, 1);
		cr_assert_str_eq(told->bucket_id->bucket[0]->key, "user");
		cr_assert_str_eq(told->bucket_id->bucket[0]->value, "u");
	}
	return response;
}

static const rlqs_strategy *strategy_of(const rlqs_told *told, int64_t ttl_s)
{
	cr_assert_eq(told->bucket_action_case, ACTION(QUOTA_ASSIGNMENT_ACTION));
	cr_assert_eq(told->quota_assignment_action->assignment_time_to_live->seconds, ttl_s);
	return told->quota_assignment_action->rate_limit_strategy;
}

static void free_response(rlqs_response *response)
{
	envoy__service__rate_limit_quota__v3__rate_limit_quota_response__free_unpacked(response,
										       NULL);
}

Test(rlqs_action, an_allowance_is_a_full_bucket_whatever_was_before)
{
	struct buf bytes = {0};
	rlqs_response *r =
		response_of(&bytes, &(struct rlqs_action){RLQS_ALLOWANCE, 1000000000, 8});
	const rlqs_strategy *s;

	cr_assert_eq(r->n_bucket_action, 2);
	s = strategy_of(r->bucket_action[0], 8);
	cr_assert(s->strategy_case == STRATEGY(BLANKET_RULE) && s->blanket_rule == RULE(DENY_ALL));
	s = strategy_of(r->bucket_action[1], 8);
	cr_assert_eq(s->strategy_case, STRATEGY(TOKEN_BUCKET));
	cr_assert_eq(s->token_bucket->max_tokens, 1000000000);
	cr_assert_eq(s->token_bucket->tokens_per_fill->value, 1);
	cr_assert_eq(s->token_bucket->fill_interval->seconds, 86400);
	free_response(r);
	buf_release(&bytes);
}

Test(rlqs_action, blanket_rules_and_abandon)
{
	struct buf bytes = {0};
	rlqs_response *r =
		response_of(&bytes, &(struct rlqs_action){.kind = RLQS_ALLOW, .ttl_s = 2});
	const rlqs_strategy *s = strategy_of(r->bucket_action[0], 2);

	cr_assert(r->n_bucket_action == 1 && s->strategy_case == STRATEGY(BLANKET_RULE) &&
		  s->blanket_rule == RULE(ALLOW_ALL));
	free_response(r);
	r = response_of(&bytes, &(struct rlqs_action){.kind = RLQS_DENY, .ttl_s = 300});
	s = strategy_of(r->bucket_action[0], 300);
	cr_assert(r->n_bucket_action == 1 && s->blanket_rule == RULE(DENY_ALL));
	free_response(r);
	r = response_of(&bytes, &(struct rlqs_action){.kind = RLQS_ABANDON});
	cr_assert_eq(r->n_bucket_action, 1);
	cr_assert_eq(r->bucket_action[0]->bucket_action_case, ACTION(ABANDON_ACTION));
	free_response(r);
	buf_release(&bytes);
}
