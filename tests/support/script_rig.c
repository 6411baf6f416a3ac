#include "script_rig.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/lua_script.h"

/* Before the script's own text: what TIME answers comes from two more arguments. */
static const char clock_lua[] = "local redis = setmetatable({call = function(name, ...)\n"
				"  if name == 'TIME' then return {ARGV[2], ARGV[3]} end\n"
				"  return redis.call(name, ...)\n"
				"end}, {__index = redis})\n";

void script_rig_start(struct script_rig *r)
{
	*r = (struct script_rig){.batch = script_batch_new(),
				 .stamp = UINT64_C(0xf123456789ab0000)};
	redis_server_start(&r->server, NULL);
	redis_client_connect(&r->client, r->server.socket_path);
}

void script_rig_stop(struct script_rig *r)
{
	redis_answer_release(&r->reply);
	redis_client_close(&r->client);
	redis_server_stop(&r->server);
	script_batch_free(r->batch);
}

static void fail(const char *what, const struct redis_answer *a)
{
	fprintf(stderr, "script_rig: %s: %c %.*s\n", what, a->type, (int)a->text.len,
		a->text.ptr == NULL ? "" : a->text.ptr);
	abort();
}

/* The script's text, but for the rule that is broken. */
static void add_body(const struct script_rig *r, struct buf *b)
{
	const char *body = lua_decide.body, *end = body + lua_decide.len, *at;

	if (r->rule == NULL) {
		buf_add(b, body, lua_decide.len);
		return;
	}
	at = memmem(body, lua_decide.len, r->rule, strlen(r->rule));
	if (at == NULL ||
	    memmem(at + 1, (size_t)(end - at - 1), r->rule, strlen(r->rule)) != NULL) {
		fprintf(stderr, "script_rig: not once: %s\n", r->rule);
		abort();
	}
	buf_add(b, body, (size_t)(at - body));
	buf_add_text(b, r->instead);
	at += strlen(r->rule);
	buf_add(b, at, (size_t)(end - at));
}

static void load_virtual_script(struct script_rig *r)
{
	struct buf body = {0}, b = {0};
	struct redis_answer a;

	buf_add_text(&body, clock_lua);
	add_body(r, &body);
	buf_printf(&b, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%zu\r\n", body.len);
	buf_add(&b, body.ptr, body.len);
	buf_add_text(&b, "\r\n");
	a = redis_client_send(&r->client, buf_slice(&b));
	if (a.type != '$' || a.text.len != 40)
		fail("load", &a);
	memcpy(r->virtual_sha1, a.text.ptr, 41);
	redis_answer_release(&a);
	buf_release(&body);
	buf_release(&b);
}

/* The command with another script and two more arguments. */
static struct redis_answer run_virtual(struct script_rig *r, struct slice command)
{
	const char *rest = memchr(command.ptr, '\n', command.len);
	char sec[24], usec[24];
	struct buf b = {0};
	struct redis_answer a;

	if (r->virtual_sha1[0] == '\0')
		load_virtual_script(r);
	snprintf(sec, sizeof sec, "%" PRIu64, r->virtual_us / 1000000);
	snprintf(usec, sizeof usec, "%" PRIu64, r->virtual_us % 1000000);
	buf_printf(&b, "*%ld", strtol(command.ptr + 1, NULL, 10) + 2);
	buf_add_text(&b, "\r");
	buf_add(&b, rest, command.len - (size_t)(rest - command.ptr));
	memcpy(strstr(b.ptr, "$40\r\n") + 5, r->virtual_sha1, 40);
	buf_printf(&b, "$%zu\r\n%s\r\n$%zu\r\n%s\r\n", strlen(sec), sec, strlen(usec), usec);
	a = redis_client_send(&r->client, buf_slice(&b));
	buf_release(&b);
	return a;
}

static bool is_noscript(const struct redis_answer *a)
{
	return a->type == '-' && a->text.len > 9 && memcmp(a->text.ptr, "-NOSCRIPT", 9) == 0;
}

static struct slice command(const struct script_rig *r, bool with_body)
{
	return script_batch_command(
		r->batch, with_body,
		&(struct script_call){.stamp = r->stamp,
				      .earliest_us = r->doubted ? LIMIT_FOREVER_US : 0,
				      .latest_us = LIMIT_FOREVER_US,
				      .steady_earliest_us = r->jumped ? LIMIT_FOREVER_US : 0,
				      .steady_latest_us = LIMIT_FOREVER_US});
}

void script_rig_run(struct script_rig *r, const struct script_op *op, uint32_t n,
		    struct script_answer *ret_answer)
{
	struct script_reader reader;

	script_batch_clear(r->batch);
	for (uint32_t i = 0; i < n; i++)
		if (script_batch_add(r->batch, &op[i], r->clock_us) != KOVA_OK)
			fail("add", &r->reply);
	redis_answer_release(&r->reply);
	r->stamp++;
	if (r->virtual_us != 0)
		r->reply = run_virtual(r, command(r, false));
	else
		r->reply = redis_client_send(&r->client, command(r, false));
	if (is_noscript(&r->reply)) {
		redis_answer_release(&r->reply);
		r->reply = redis_client_send(&r->client, command(r, true));
	}
	if (r->reply.type != '$' ||
	    script_reader_init(&reader, r->reply.text, r->stamp, n, script_batch_plain(r->batch)) !=
		    KOVA_OK ||
	    reader.refill_refused != r->doubted)
		fail("reply", &r->reply);
	for (uint32_t i = 0; i < n; i++)
		if (script_reader_next(&reader, &ret_answer[i]) != KOVA_OK)
			fail("answer", &r->reply);
	r->clock_us = reader.now_us;
}

struct script_answer script_rig_one(struct script_rig *r, enum script_op_kind kind,
				    const struct limit *l, const char *key, uint64_t cost)
{
	struct script_check check = {.limit = l, .key = slice_of(key), .cost = cost};
	struct script_op op = {.kind = kind, .checks = &check, .n_checks = 1};
	struct script_answer answer;

	script_rig_run(r, &op, 1, &answer);
	return answer;
}
