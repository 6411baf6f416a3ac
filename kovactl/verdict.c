#include "verdict.h"

#include <inttypes.h>
#include <stdio.h>

#include "command.h"
#include "core/duration.h"
#include "output.h"

enum { BAR = 20 };

static bool text_copy(const redisReply *item, char *to, size_t size)
{
	if (item->type != REDIS_REPLY_STRING && item->type != REDIS_REPLY_STATUS)
		return false;
	if (item->len >= size)
		return false;
	memcpy(to, item->str, item->len);
	to[item->len] = '\0';
	return true;
}

kova_status verdict_parse(const redisReply *reply, struct verdict *ret_verdict)
{
	struct verdict v = {0};

	if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 6)
		return KOVA_EPROTO;
	for (size_t i = 0; i < 5; i++)
		if (reply->element[i]->type != REDIS_REPLY_INTEGER)
			return KOVA_EPROTO;
	v.allowed = reply->element[0]->integer != 0;
	v.remaining = reply->element[1]->integer;
	v.limit = reply->element[2]->integer;
	v.retry_after_ms = reply->element[3]->integer;
	v.reset_after_ms = reply->element[4]->integer;
	if (!text_copy(reply->element[5], v.reason, sizeof v.reason))
		return KOVA_EPROTO;
	v.with_receipt = reply->elements > 6;
	if (v.with_receipt && reply->element[6]->type != REDIS_REPLY_NIL &&
	    !text_copy(reply->element[6], v.receipt, sizeof v.receipt))
		return KOVA_EPROTO;
	*ret_verdict = v;
	return KOVA_OK;
}

kova_status verdict_take(redisReply *reply, struct verdict *ret_verdict,
			 struct agent_error *ret_error)
{
	kova_status status = verdict_parse(reply, ret_verdict);

	freeReplyObject(reply);
	if (status != KOVA_OK)
		agent_error_set(ret_error, "its answer has a form that this kovactl does not know");
	return status;
}

const char *verdict_reason(const struct verdict *v, char text[VERDICT_REASON_MAX])
{
	static const struct {
		const char *reason, *text;
	} known[] = {
		{"ok", NULL},
		{"banned", "the key is banned"},
		{"queue_full", "too many wait already"},
		{"wait_timeout", "its turn did not come in time"},
		{"outage", "decided without Redis, by the policy's on_outage"},
		{"shadow", "over the limit, but the policy is a shadow"},
	};

	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (strcmp(v->reason, known[i].reason) == 0)
			return known[i].text;
	if (strncmp(v->reason, "limited:", 8) == 0)
		snprintf(text, VERDICT_REASON_MAX, "limited by %s", v->reason + 8);
	else
		snprintf(text, VERDICT_REASON_MAX, "%s", v->reason);
	return text;
}

static void add_duration(struct buf *b, const char *before, int64_t ms)
{
	char text[DURATION_TEXT_MAX];

	duration_write_rounded((uint64_t)ms, text);
	buf_printf(b, ", %s %s", before, text);
}

void verdict_summary(struct buf *b, const struct verdict *v)
{
	char text[VERDICT_REASON_MAX];
	const char *reason = verdict_reason(v, text);

	buf_printf(b, "%" PRId64 " of %" PRId64 " left", v->remaining, v->limit);
	if (!v->allowed && v->retry_after_ms < 0)
		buf_add_text(b, ", never fits");
	else if (!v->allowed)
		add_duration(b, "again in", v->retry_after_ms);
	else if (v->reset_after_ms > 0)
		add_duration(b, "full again in", v->reset_after_ms);
	if (reason != NULL)
		buf_printf(b, " (%s)", reason);
}

uint64_t verdict_part(const struct verdict *v)
{
	return v->remaining > 0 ? (uint64_t)v->remaining : 0;
}

uint64_t verdict_whole(const struct verdict *v)
{
	return v->limit > 0 ? (uint64_t)v->limit : 0;
}

enum paint verdict_paint(const struct verdict *v)
{
	if (!v->allowed)
		return PAINT_BAD;
	return strcmp(v->reason, "ok") == 0 ? PAINT_GOOD : PAINT_WARN;
}

/* On stdout: allowed or refused, a bar, what is left, when again, why. */
static void print(const struct verdict *v)
{
	const char *colour = paint(stdout, verdict_paint(v));
	struct buf text = {0};

	verdict_summary(&text, v);
	buf_add(&text, "", 1);
	printf("%s%s%s  %s", colour, v->allowed ? "allowed" : "refused", paint(stdout, PAINT_PLAIN),
	       colour);
	output_bar(stdout, verdict_part(v), verdict_whole(v), BAR);
	fputs("  ", stdout);
	output_text(stdout, buf_failed(&text) ? "" : text.ptr);
	putchar('\n');
	buf_release(&text);
	if (v->receipt[0] != '\0') {
		fputs("receipt  ", stdout);
		output_text(stdout, v->receipt);
		putchar('\n');
	}
}

json_t *verdict_json(const struct verdict *v)
{
	json_t *json =
		json_pack("{s:b, s:I, s:I, s:I, s:I, s:s}", "allowed", v->allowed, "remaining",
			  (json_int_t)v->remaining, "limit", (json_int_t)v->limit, "retry_after_ms",
			  (json_int_t)v->retry_after_ms, "reset_after_ms",
			  (json_int_t)v->reset_after_ms, "reason", v->reason);

	if (json != NULL && v->with_receipt) {
		json_t *receipt = v->receipt[0] != '\0' ? json_string(v->receipt) : json_null();

		if (json_object_set_new(json, "receipt", receipt) != 0) {
			json_decref(json);
			return NULL;
		}
	}
	return json;
}

int verdict_exit(const struct verdict *v)
{
	return v->allowed ? EXIT_ALLOWED : EXIT_REFUSED;
}

int verdict_ask(struct session *s, const struct resp_words *words, uint64_t within_ms)
{
	struct agent_error error;
	struct verdict v;
	redisReply *reply;
	int exit_status = session_call(s, words, within_ms, &reply);

	if (exit_status != EXIT_ALLOWED)
		return exit_status;
	kova_status status = verdict_take(reply, &v, &error);
	if (status != KOVA_OK)
		return session_failed(s, status, &error);
	if (s->json)
		exit_status = output_json(verdict_json(&v));
	else
		print(&v);
	return exit_status == EXIT_ALLOWED ? verdict_exit(&v) : exit_status;
}
